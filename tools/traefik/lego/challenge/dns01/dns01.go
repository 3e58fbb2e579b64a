package dns01

import (
	"strings"
	"time"
)

// UnFqdn is real: Traefik trims the final dot of every TLS server name with it.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }

type (
	Client          struct{}
	Options         struct{ RecursiveNameservers []string }
	ChallengeOption struct{}
)

func NewClient(*Options) *Client { return nil }

func SetDefaultClient(*Client) {}

func CondOptions(bool, ...ChallengeOption) ChallengeOption { return ChallengeOption{} }

func DisableAuthoritativeNssPropagationRequirement() ChallengeOption { return ChallengeOption{} }

func DisableRecursiveNSsPropagationRequirement() ChallengeOption { return ChallengeOption{} }

func PropagationWait(time.Duration, bool) ChallengeOption { return ChallengeOption{} }
