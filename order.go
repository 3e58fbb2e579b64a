package sluice

import (
	"sort"
	"strconv"
	"strings"
)

// The order of long lists. Labels and key-value stores have no lists but numbers in names, limits[10].average or
// limits/10/average. Traefik sorts such names as text, 10 before 2, and hands on a list without the numbers. They are
// known, though, as long as they are 0, 1, 2 and so on: the list can be put back.

// afterNumber is what stands after the number in a name, by provider. A middleware's name ends with its provider's.
var afterNumber = map[string]string{
	"docker": "]", "swarm": "]", "ecs": "]", "nomad": "]", "consulcatalog": "]",
	"redis": "/", "consul": "/", "etcd": "/", "zookeeper": "/",
}

// inOrder is the options of the middleware of this name with their limits, and the costs of each, in the order in
// which they were written. Other lists mean the same in any order.
func inOrder(config *Config, name string) *Config {
	provider := name[strings.LastIndexByte(name, '@')+1:]
	provider, _, _ = strings.Cut(provider, "-") // with a namespace: consul-blue
	end := afterNumber[provider]
	if end == "" {
		return config
	}
	ordered := *config
	ordered.Limits = nil
	for _, at := range arrivals(len(config.Limits), end) {
		l := config.Limits[at]
		costs := l.Costs
		l.Costs = nil
		for _, at := range arrivals(len(costs), end) {
			l.Costs = append(l.Costs, costs[at])
		}
		ordered.Limits = append(ordered.Limits, l)
	}
	return &ordered
}

// arrivals says where in a list of n items that was sorted as text the items 0, 1, 2 and so on are.
func arrivals(n int, end string) []int {
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(i) + end
	}
	sort.Strings(names)
	at := make([]int, n)
	for position, name := range names {
		i, _ := strconv.Atoi(strings.TrimSuffix(name, end))
		at[i] = position
	}
	return at
}
