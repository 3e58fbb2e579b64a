# What people and CI run. `make` alone lists it.

GO ?= go

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: ## a running gateway with limits, and what to try with it (EXAMPLE=folder takes another example)
	@mkdir -p .cache && cd tools/demo && $(GO) build -o ../../.cache/demo . && exec ../../.cache/demo

.PHONY: test
test: unit interpreted e2e ## everything that `go test` can prove, against the real Traefik

.PHONY: unit
unit: ## the plugin's own tests, with the race detector
	$(GO) vet ./...
	$(GO) test -race ./...
	cd tools/demo && $(GO) vet ./... && $(GO) test ./...

.PHONY: interpreted
interpreted: ## the handler tests, run by the interpreter that Traefik runs plugins with
	cd e2e && $(GO) test -count=1 ./interpreted/...

.PHONY: e2e
e2e: ## end to end: the files in examples/, in the real Traefik
	cd e2e && $(GO) vet ./... && TRAEFIK="$$(sh ../tools/traefik/binary.sh)" $(GO) test -count=1 -timeout 30m $$($(GO) list ./... | grep -v /interpreted)

.PHONY: kubernetes
kubernetes: ## the Kubernetes example, applied to a real API server
	sh tools/traefik/binary.sh >/dev/null
	sh tools/kubernetes/binaries.sh >/dev/null
	cd e2e/kubernetes && $(GO) vet ./... && $(GO) test -count=1 -failfast -timeout 10m .

.PHONY: helm-values
helm-values: ## write kustomization.yaml and examples/helm/values.yaml from the plugin's files
	sh tools/kubernetes/manifests.sh

.PHONY: load
load: ## the Next.js article's load test, and ten times as much: three minutes, needs npm
	cd e2e && TRAEFIK="$$(sh ../tools/traefik/binary.sh)" LOAD=full $(GO) test -count=1 -v -timeout 15m -run '^TestLoad$$' .

.PHONY: fuzz
fuzz: ## a minute of fuzzing for every parser of what clients and operators send
	@for target in $$($(GO) test -list '^Fuzz' . | grep '^Fuzz'); do \
		echo "$$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),1m) -fuzzminimizetime 10x . || exit 1; \
	done

.PHONY: lint
lint: ## gofmt, vet and golangci-lint, pinned in tools/lint
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) tool -modfile=tools/lint/go.mod golangci-lint run ./...
	cd tools/demo && $(GO) tool -modfile=../lint/go.mod golangci-lint run --config ../../.golangci.yml ./...
	cd e2e && $(GO) tool -modfile=../tools/lint/go.mod golangci-lint run --config ../.golangci.yml ./...
	cd e2e/kubernetes && $(GO) tool -modfile=../../tools/lint/go.mod golangci-lint run --config ../../.golangci.yml ./...

.PHONY: clean
clean: ## remove what was built or fetched
	rm -rf .cache
