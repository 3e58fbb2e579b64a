module github.com/sluice-ratelimit/sluice/e2e

go 1.26

require (
	github.com/chromedp/cdproto v0.160.1
	github.com/chromedp/chromedp v0.23.1
	github.com/coder/websocket v1.8.15
	github.com/mitchellh/mapstructure v1.5.0
	github.com/sluice-ratelimit/sluice/tools/demo v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/traefik/yaegi v0.16.1
	go.yaml.in/yaml/v3 v3.0.5
)

require github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect

replace github.com/sluice-ratelimit/sluice/tools/demo => ../tools/demo
