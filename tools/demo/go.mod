module github.com/sluice-ratelimit/sluice/tools/demo

go 1.26
