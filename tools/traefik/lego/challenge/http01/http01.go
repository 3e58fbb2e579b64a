package http01

import "time"

const PathPrefix = "/.well-known/acme-challenge/"

type ChallengeOption struct{}

func SetDelay(time.Duration) ChallengeOption { return ChallengeOption{} }
