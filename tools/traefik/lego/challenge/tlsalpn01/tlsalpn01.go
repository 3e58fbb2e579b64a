package tlsalpn01

import (
	"time"

	"github.com/go-acme/lego/v5/acme"
)

const ACMETLS1Protocol = "acme-tls/1"

type ChallengeOption struct{}

func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }

func ChallengeBlocks(domain, keyAuth string) (cert, key []byte, err error) {
	return nil, nil, acme.ErrNotBuiltIn
}
