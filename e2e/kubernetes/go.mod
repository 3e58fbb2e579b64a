module github.com/sluice-ratelimit/sluice/e2e/kubernetes

go 1.26

require (
	github.com/sluice-ratelimit/sluice/tools/demo v0.0.0
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sys v0.47.0
)

replace github.com/sluice-ratelimit/sluice/tools/demo => ../../tools/demo
