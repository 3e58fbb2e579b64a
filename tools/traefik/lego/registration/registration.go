package registration

import (
	"context"
	"crypto"

	"github.com/go-acme/lego/v5/acme"
)

type User interface {
	GetEmail() string
	GetRegistration() *acme.ExtendedAccount
	GetPrivateKey() crypto.Signer
}

type RegisterOptions struct{ TermsOfServiceAgreed bool }

type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid                  string
	HmacEncoded          string
}

type Registrar struct{}

func (*Registrar) Register(context.Context, RegisterOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrNotBuiltIn
}

func (*Registrar) RegisterWithExternalAccountBinding(context.Context, RegisterEABOptions) (*acme.ExtendedAccount, error) {
	return nil, acme.ErrNotBuiltIn
}
