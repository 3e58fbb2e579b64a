// Package floor is a plugin that only calls the next handler: what any plugin costs at least.
package floor

import (
	"context"
	"net/http"
)

type Config struct{}

func CreateConfig() *Config { return &Config{} }

type floor struct {
	next http.Handler
}

func New(_ context.Context, next http.Handler, _ *Config, _ string) (http.Handler, error) {
	return &floor{next: next}, nil
}

func (f *floor) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	f.next.ServeHTTP(rw, req)
}
