module github.com/sluice-ratelimit/sluice/e2e

go 1.26

require (
	github.com/coder/websocket v1.8.15
	github.com/sluice-ratelimit/sluice/tools/demo v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/mitchellh/mapstructure v1.5.0 // indirect
	github.com/traefik/yaegi v0.16.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/sluice-ratelimit/sluice/tools/demo => ../tools/demo
