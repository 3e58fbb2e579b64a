package sluice_test

import (
	"fmt"
	"net/http"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sortedAsText is a list of n items, as Traefik hands it on that has read them under names such as limits[10].x;
// format is what follows limits.
func sortedAsText(n int, format string, item func(i int) options) []any {
	items := map[string]any{}
	var names []string
	for i := 0; i < n; i++ {
		name := fmt.Sprintf(format, i)
		items[name] = item(i)
		names = append(names, name)
	}
	sort.Strings(names)
	var list []any
	for _, name := range names {
		list = append(list, items[name])
	}
	return list
}

// TestMoreThanTenLimits keep their order, whichever way they come.
func TestMoreThanTenLimits(t *testing.T) {
	for provider, format := range map[string]string{
		"file": "%03d", "kubernetescrd": "%03d", "http": "%03d", "plugin-docker": "%03d",
		"docker": "[%d].requests", "swarm": "[%d].requests", "nomad-blue": "[%d].requests", "ecs": "[%d].requests", "consulcatalog": "[%d].requests",
		"redis": "/%d/requests", "consul": "/%d/requests", "consul-blue": "/%d/requests", "etcd": "/%d/requests", "zookeeper": "/%d/requests",
	} {
		for _, count := range []int{1, 10, 11, 12, 25, 101} {
			list := sortedAsText(count, format, func(i int) options { return window(1000 + i) })
			h := named(t, options{"limits": list, "headers": "ietf"}, fmt.Sprintf("many-%d@%s", count, provider))
			var want []string
			for i := 0; i < count; i++ {
				want = append(want, fmt.Sprintf(`"limit-%d";q=%d;w=86400`, i+1, 1000+i))
			}
			require.Equal(t, strings.Join(want, ", "), send(h, get("/")).Header.Get("Ratelimit-Policy"), "%d from %s", count, provider)
		}
	}
}

// TestMoreThanTenCosts: the first that matches counts.
func TestMoreThanTenCosts(t *testing.T) {
	costs := sortedAsText(12, "[%d].cost", func(i int) options {
		return options{"match": options{"paths": "/" + strings.Repeat("x/", 12-i)}, "cost": i + 1}
	})
	h := named(t, limits(window(1000, "costs", costs)), "costs@docker")
	require.Equal(t, "999", send(h, get("/x/x/x/x/x/x/x/x/x/x/x/x/")).Header.Get("X-Ratelimit-Remaining"))
	require.Equal(t, "997", send(h, get("/x/x/x/x/x/x/x/x/x/x/x/")).Header.Get("X-Ratelimit-Remaining"))
	require.Equal(t, "985", send(h, get("/x/")).Header.Get("X-Ratelimit-Remaining"))
}

// TestMistakesInLongLists name the place where they were written.
func TestMistakesInLongLists(t *testing.T) {
	for _, wrong := range []options{{"requests": "x", "window": "1h"}, {"requests": 1, "window": "1h", "requets": 1}} {
		list := sortedAsText(12, "[%d].requests", func(i int) options {
			if i == 10 {
				return wrong
			}
			return window(1)
		})
		h, err := build(options{"limits": list}, http.NotFoundHandler(), "wrong@docker")
		require.Nil(t, h)
		require.ErrorContains(t, err, "limits[10].")
	}
}
