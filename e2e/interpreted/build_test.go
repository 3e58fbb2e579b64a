// This folder runs the plugin as Traefik does: interpreted by Yaegi from a GOPATH layout, with options decoded by
// mapstructure from what a provider delivers. Its handler tests are the root module's own, in linked files.
package sluice_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"sync"

	"github.com/mitchellh/mapstructure"
	"github.com/traefik/yaegi/interp"
	"github.com/traefik/yaegi/stdlib"
)

// plugin is a package that Yaegi has loaded.
type plugin struct {
	newHandler, createConfig reflect.Value
}

// load interprets the package importPath from goPath, as Traefik's newYaegiMiddlewareBuilder does.
func load(goPath, importPath, name string) (p plugin, err error) {
	i := interp.New(interp.Options{GoPath: goPath, Env: os.Environ()})
	if err = i.Use(stdlib.Symbols); err != nil {
		return p, err
	}
	if _, err = i.Eval(`import "` + importPath + `"`); err != nil {
		return p, err
	}
	if p.newHandler, err = i.Eval(name + ".New"); err != nil {
		return p, err
	}
	p.createConfig, err = i.Eval(name + ".CreateConfig")
	return p, err
}

// build decodes options and calls the package's New, as Traefik's yaegiMiddlewareBuilder does.
func (p plugin) build(options map[string]any, next http.Handler, name string) (http.Handler, error) {
	config := p.createConfig.Call(nil)[0]
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		DecodeHook:       mapstructure.StringToSliceHookFunc(","),
		WeaklyTypedInput: true,
		Result:           config.Interface(),
	})
	if err != nil {
		return nil, err
	}
	if err := decoder.Decode(options); err != nil {
		return nil, err
	}
	results := p.newHandler.Call([]reflect.Value{
		reflect.ValueOf(context.Background()), reflect.ValueOf(next), config, reflect.ValueOf(name),
	})
	if err, _ := results[1].Interface().(error); err != nil {
		return nil, err
	}
	return results[0].Interface().(http.Handler), nil
}

const modulePath = "github.com/sluice-ratelimit/sluice"

// sluice loads the plugin under test, once: its package-level state then lives through all tests, as it does in Traefik.
var sluice = sync.OnceValues(func() (plugin, error) {
	goPath, err := os.MkdirTemp("", "sluice-gopath-")
	if err != nil {
		return plugin{}, err
	}
	defer os.RemoveAll(goPath)
	root, err := filepath.Abs("../..")
	if err != nil {
		return plugin{}, err
	}
	link := filepath.Join(goPath, "src", modulePath)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return plugin{}, err
	}
	if err := os.Symlink(root, link); err != nil {
		return plugin{}, err
	}
	return load(goPath, modulePath, "sluice")
})

// build makes a handler of the plugin.
func build(options map[string]any, next http.Handler, name string) (http.Handler, error) {
	p, err := sluice()
	if err != nil {
		return nil, err
	}
	return p.build(options, next, name)
}
