module github.com/sluice-ratelimit/sluice

go 1.22

require github.com/stretchr/testify v1.12.1 // indirect
