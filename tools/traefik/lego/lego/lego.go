package lego

import (
	"crypto/x509"
	"net/http"
	"time"

	"github.com/go-acme/lego/v5/acme"
	"github.com/go-acme/lego/v5/certificate"
	"github.com/go-acme/lego/v5/challenge"
	"github.com/go-acme/lego/v5/challenge/dns01"
	"github.com/go-acme/lego/v5/challenge/http01"
	"github.com/go-acme/lego/v5/challenge/tlsalpn01"
	"github.com/go-acme/lego/v5/registration"
)

const DirectoryURLLetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

type Config struct {
	CADirURL    string
	UserAgent   string
	HTTPClient  *http.Client
	Certificate struct{ Timeout time.Duration }
}

func NewConfig(registration.User) *Config { return &Config{} }

type Client struct {
	Certificate  *certificate.Certifier
	Challenge    *SolverManager
	Registration *registration.Registrar
}

// NewClient always fails, so the methods of a Client are there for the compiler alone.
func NewClient(*Config) (*Client, error) { return nil, acme.ErrNotBuiltIn }

func CreateCertPool([]string, bool) (*x509.CertPool, error) { return nil, acme.ErrNotBuiltIn }

type SolverManager struct{}

func (*SolverManager) SetDNS01Provider(challenge.Provider, ...dns01.ChallengeOption) error {
	return acme.ErrNotBuiltIn
}

func (*SolverManager) SetHTTP01Provider(challenge.Provider, ...http01.ChallengeOption) error {
	return acme.ErrNotBuiltIn
}

func (*SolverManager) SetTLSALPN01Provider(challenge.Provider, ...tlsalpn01.ChallengeOption) error {
	return acme.ErrNotBuiltIn
}
