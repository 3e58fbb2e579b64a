// Package providers tests that the same options mean the same from every provider of Traefik's configuration, in each one's spelling.
package providers

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/mitchellh/mapstructure"
	"github.com/stretchr/testify/require"
	"github.com/traefik/paerser/file"
	"github.com/traefik/paerser/parser"
	"go.yaml.in/yaml/v3"

	"github.com/sluice-ratelimit/sluice"
)

// configuration is as much of Traefik's dynamic configuration as is of interest here, with its types and tags.
type configuration struct {
	HTTP *struct {
		Middlewares map[string]*struct {
			Plugin map[string]pluginConf `json:"plugin,omitempty" toml:"plugin,omitempty" yaml:"plugin,omitempty"`
		} `json:"middlewares,omitempty" toml:"middlewares,omitempty" yaml:"middlewares,omitempty"`
	} `json:"http,omitempty" toml:"http,omitempty" yaml:"http,omitempty"`
}

type pluginConf map[string]any

func (c *configuration) options(t *testing.T) map[string]any {
	t.Helper()
	require.NotNil(t, c.HTTP)
	require.Contains(t, c.HTTP.Middlewares, "spellings")
	return c.HTTP.Middlewares["spellings"].Plugin["sluice"]
}

// fromFile reads a file as Traefik's file provider does, by the ending of its name.
func fromFile(t *testing.T, name string) map[string]any {
	t.Helper()
	c := &configuration{}
	require.NoError(t, file.Decode(name, c))
	return c.options(t)
}

// fromContent is fromFile for what would stand in a file of such an ending, below the plugin's name.
func fromContent(t *testing.T, content, ending string) (map[string]any, error) {
	t.Helper()
	c := &configuration{}
	err := file.DecodeContent(content, ending, c)
	if err != nil {
		return nil, err
	}
	return c.options(t), nil
}

// fromLabels reads labels as Traefik's Docker provider does, and those of Swarm, ECS, Nomad and Consul Catalog.
func fromLabels(t *testing.T, labels map[string]string) map[string]any {
	t.Helper()
	c := &configuration{}
	require.NoError(t, parser.Decode(labels, c, parser.DefaultRootName, "traefik.http"))
	return c.options(t)
}

// fromResource reads a Kubernetes resource: kubectl sends the YAML as JSON, and Traefik reads that.
func fromResource(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var resource struct {
		Spec struct {
			Plugin struct{ Sluice map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &resource))
	sent, err := json.Marshal(resource.Spec.Plugin.Sluice)
	require.NoError(t, err)
	var options map[string]any
	require.NoError(t, json.Unmarshal(sent, &options))
	return options
}

// pairs reads a file of lines name=value.
func pairs(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "="); found {
			all[key] = value
		}
	}
	return all
}

// decode decodes options as Traefik does for a plugin.
func decode(options map[string]any) (*sluice.Config, error) {
	c := sluice.CreateConfig()
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		DecodeHook:       mapstructure.StringToSliceHookFunc(","),
		WeaklyTypedInput: true,
		Result:           c,
	})
	if err != nil {
		return nil, err
	}
	return c, decoder.Decode(options)
}

func config(t *testing.T, options map[string]any) *sluice.Config {
	t.Helper()
	c, err := decode(options)
	require.NoError(t, err)
	return c
}

// handler is the plugin with options from a provider. What it passes is a teapot, as Traefik's own service for tests is.
func handler(t *testing.T, options map[string]any, provider string) http.Handler {
	t.Helper()
	teapot := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTeapot) })
	h, err := sluice.New(context.Background(), teapot, config(t, options), strings.ReplaceAll(t.Name(), "/", "-")+"@"+provider)
	require.NoError(t, err)
	return h
}
