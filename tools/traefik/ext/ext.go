// Package ext is where a distribution of Traefik adds options of its own to every HTTP
// configuration and router. Traefik itself adds none, but leaves the package out of its module.
package ext

// HTTP is embedded in Traefik's HTTP configuration.
type HTTP struct{}

// Router is embedded in Traefik's router.
type Router struct{}
