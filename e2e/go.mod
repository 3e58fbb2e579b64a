module github.com/sluice-ratelimit/sluice/e2e

go 1.26.0

require (
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.1
	github.com/coder/websocket v1.8.15
	github.com/dunglas/httpsfv v1.1.2
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/mitchellh/mapstructure v1.5.0
	github.com/sluice-ratelimit/sluice v0.0.0
	github.com/sluice-ratelimit/sluice/tools/demo v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/traefik/paerser v0.2.2
	github.com/traefik/yaegi v0.16.1
	go.yaml.in/yaml/v3 v3.0.5
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/BurntSushi/toml v1.4.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace (
	github.com/sluice-ratelimit/sluice => ..
	github.com/sluice-ratelimit/sluice/tools/demo => ../tools/demo
)
