module github.com/sluice-ratelimit/sluice

go 1.22

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/mitchellh/mapstructure v1.5.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
