// Package acme and the packages beside it are the part of lego that Traefik names,
// without the part that talks to a certificate authority. See ../../README.md.
package acme

import "errors"

// ErrNotBuiltIn is what everything here that could fail answers.
var ErrNotBuiltIn = errors.New("ACME is not built in")

type Account struct{}

type ExtendedAccount struct {
	Account
	Location string
}
