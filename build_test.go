package sluice_test

import (
	"context"
	"net/http"

	"github.com/mitchellh/mapstructure"

	"github.com/sluice-ratelimit/sluice"
)

// build makes a handler of the compiled plugin, from options that are decoded as Traefik decodes them.
// e2e/interpreted has a build of its own, which interprets the plugin, and runs the same tests with it.
func build(options map[string]any, next http.Handler, name string) (http.Handler, error) {
	config := sluice.CreateConfig()
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		DecodeHook:       mapstructure.StringToSliceHookFunc(","),
		WeaklyTypedInput: true,
		Result:           config,
	})
	if err != nil {
		return nil, err
	}
	if err := decoder.Decode(options); err != nil {
		return nil, err
	}
	return sluice.New(context.Background(), next, config, name)
}
