package main

import "strings"

// invitation says what to try, and what one will see.
func invitation(web, api string) string {
	return strings.NewReplacer("WEB", web, "TRAEFIK", api).Replace(`
Sluice is up, in the real Traefik, in front of a backend that knows nothing of limits.

See it: WEB/playground/

A bucket for each client: it holds 10 and gains 2 a second.
    curl -i WEB/data
        Every answer tells where you stand: X-RateLimit-Limit, -Remaining and -Reset.
    curl -s -o /dev/null -w '%{http_code} ' 'WEB/data?[1-12]'; echo
        Ten times 200, then 429. Wait a second, and two more pass.

A window for each API key: 5 requests in 10 seconds.
    curl -s -o /dev/null -w '%{http_code} ' -H 'X-Api-Key: alice' 'WEB/keyed?[1-7]'; echo
        Five times 200, then 429; another key has five of its own.
    curl -i -H 'X-Api-Key: alice' WEB/keyed
        The refusal. Retry-After tells when the window ends, and then the request does pass.

A window for each email address in a JSON body: 1 request in 5 seconds.
    curl -i -d '{"email":"j.doe@email.com"}' WEB/api/reset-password-init
        The second time it is refused, with a body of its own; another address is not.

One limit for everybody, on all routes: 100 a second.
    curl -s -o /dev/null -w '%{http_code}\n' 'WEB/health?[1-300]' | sort | uniq -c
        A hundred and a few pass, the rest are refused.

Edit examples/demo/dynamic.yml meanwhile: new numbers hold at once, and nobody's bucket is refilled.

What got through is printed below and kept at WEB/log
What Traefik makes of the configuration: TRAEFIK/api/rawdata
Ctrl-C stops everything.
`)
}

// invitationTo is for an example that explains itself.
func invitationTo(example, web, api string) string {
	return strings.NewReplacer("EXAMPLE", example, "WEB", web, "TRAEFIK", api).Replace(`
Sluice is up, in the real Traefik, with the limits of examples/EXAMPLE. What to try stands in examples/EXAMPLE/README.md;
the gateway listens on WEB.

Edit examples/EXAMPLE/dynamic.yml meanwhile: new numbers hold at once, and what was used up stays used up.

What got through is printed below and kept at the backend's /log.
What Traefik makes of the configuration: TRAEFIK/api/rawdata
Ctrl-C stops everything.
`)
}
