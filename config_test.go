package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// shortForm is the short form of a bucket with more options.
func shortForm(more options) options { return merged(options{"average": 10}, more) }

// oneWindow is a list of one window with more options.
func oneWindow(more options) options {
	return options{"limits": []any{merged(options{"requests": 1, "window": "1h"}, more)}}
}

// oneOverride is a list of one window with one override.
func oneOverride(o options) options {
	return oneWindow(options{"overrides": []any{o}})
}

// oneMatch is a list of one window with a match.
func oneMatch(o options) options { return oneWindow(options{"match": o}) }

func merged(o, more options) options {
	all := options{}
	for _, part := range []options{o, more} {
		for name, value := range part {
			all[name] = value
		}
	}
	return all
}

// TestMistakes is every mistake that an operator can make, and what he is told: where it is, and what to write
// instead.
func TestMistakes(t *testing.T) {
	const (
		aWhole    = "; write a whole number, such as "
		aDuration = "; write a duration, such as 10s, 1m30s or 24h"
		anAverage = "; write tokens per period, such as 10 or 0.5"
		tooLarge  = " is too large, the most is 1000000000000"
		noLimit   = "there is no limit; write average (and period, burst), or a list of limits"
		onePart   = "; keep one, or write limits with a key of several parts"
		twoLimits = "; keep one, or write two limits"
		uncounted = " cannot be counted: it gains more than a token a nanosecond, or takes more than 73 years to fill"
		aPattern  = " is not a path pattern; write one that begins with /, such as /users/{id} or /files/"
		anAddress = " is neither an address nor a CIDR; write an address such as 192.0.2.1 or a range such as 10.0.0.0/8"
		aHost     = " is not a host name; write one such as api.example.com or *.example.com"
		trueFalse = " is neither true nor false; write true or false"
		unknown   = ": there is no such option; did you mean "
	)
	for _, row := range []struct {
		options options
		want    string
	}{
		{options{}, noLimit},
		{options{"headers": "none"}, noLimit},
		{options{"limits": []any{}}, noLimit},
		{shortForm(oneWindow(nil)), "average, period and burst stand beside limits; move them into an item of limits"},
		{merged(oneWindow(nil), options{"sourceCriterion": options{"requestHost": true}}), "sourceCriterion stands beside limits; write key in each item of limits, and ipStrategy at the top"},
		{options{"burst": 10}, "average is missing; write how many tokens a bucket gains per period, such as 10"},
		{options{"period": "1m"}, "average is missing; write how many tokens a bucket gains per period, such as 10"},

		{options{"average": "ten"}, `average: "ten" is not a number` + anAverage},
		{options{"average": 0}, `average: "0" must be more than 0` + anAverage},
		{options{"average": -1}, `average: "-1" must be more than 0` + anAverage},
		{options{"average": "1e3"}, `average: "1e3" is not a number` + anAverage},
		{options{"average": "0.0000001"}, `average: "0.0000001" has more than 6 decimals` + anAverage},
		{options{"average": int64(1_000_000_000_001)}, `average: "1000000000001"` + tooLarge + anAverage},
		{shortForm(options{"period": "soon"}), `period: "soon" is not a duration` + aDuration},
		{shortForm(options{"period": 0}), `period: "0" must be more than 0` + aDuration},
		{shortForm(options{"period": "-1s"}), `period: "-1s" must be more than 0` + aDuration},
		{shortForm(options{"period": "1ns"}), `period: "1ns" is too short, the least is 1us` + aDuration},
		{shortForm(options{"period": "90000h"}), `period: "90000h" is too long, the most is 87600h` + aDuration},
		{shortForm(options{"period": "1d"}), `period: "1d" is not a duration` + aDuration},
		{shortForm(options{"burst": 0}), `burst: "0" must be more than 0` + aWhole + "20"},
		{shortForm(options{"burst": 1.5}), `burst: "1.5" must be a whole number` + aWhole + "20"},
		{shortForm(options{"burst": "many"}), `burst: "many" is not a number` + aWhole + "20"},
		{shortForm(options{"burst": "99999999999999"}), `burst: "99999999999999"` + tooLarge + aWhole + "20"},
		{options{"average": 10_000, "period": "1us"}, "the limit with average 10000, period 1us and burst 10000" + uncounted},
		{options{"average": 1, "period": "87600h", "burst": 1000}, "the limit with average 1, period 87600h and burst 1000" + uncounted},
		{options{"limits": []any{options{"average": 0.000001, "period": "87600h"}}}, "limits[0] with average 0.000001, period 87600h and burst 1" + uncounted},

		{shortForm(options{"sourceCriterion": options{"ipStrategy": options{"depth": 1}, "requestHost": true}}), "sourceCriterion has both ipStrategy and requestHost" + onePart},
		{shortForm(options{"sourceCriterion": options{"ipStrategy": options{"depth": 1}, "requestHeaderName": "X"}}), "sourceCriterion has both ipStrategy and requestHeaderName" + onePart},
		{shortForm(options{"sourceCriterion": options{"requestHost": true, "requestHeaderName": "X"}}), "sourceCriterion has both requestHeaderName and requestHost" + onePart},
		{shortForm(options{"sourceCriterion": options{"requestHost": "maybe"}}), `sourceCriterion.requestHost: "maybe"` + trueFalse},
		{shortForm(options{"sourceCriterion": options{"ipStrategy": options{"depth": 1}}, "ipStrategy": options{"depth": 1}}), "ipStrategy stands at the top and in sourceCriterion; keep one"},
		{shortForm(options{"sourceCriterion": options{"ipStrategy": options{"depth": "one"}}}), `sourceCriterion.ipStrategy.depth: "one" is not a number` + aWhole + "1"},
		{shortForm(options{"ipStrategy": options{"depth": 65}}), `ipStrategy.depth: "65" is more than 64; write the number of proxies in front, such as 1`},
		{shortForm(options{"ipStrategy": options{"depth": 1, "excludedIPs": "10.0.0.1"}}), "ipStrategy has both depth and excludedIPs; keep one"},
		{shortForm(options{"ipStrategy": options{"excludedIPs": "10.0.0.1/33"}}), `ipStrategy.excludedIPs: "10.0.0.1/33"` + anAddress},
		{shortForm(options{"ipStrategy": options{"excludedIPs": []any{"10.0.0.1", "here"}}}), `ipStrategy.excludedIPs: "here"` + anAddress},
		{shortForm(options{"ipStrategy": options{"ipv6Subnet": 0}}), `ipStrategy.ipv6Subnet: "0" must be more than 0` + aWhole + "64"},
		{shortForm(options{"ipStrategy": options{"ipv6Subnet": 129}}), `ipStrategy.ipv6Subnet: "129" is more than 128 bits; write 64, or 56 to 48 for whole sites`},

		{shortForm(options{"headers": "x-rate"}), `headers: "x-rate" is not a style of headers; write x-ratelimit, ietf, draft-06 or none`},
		{shortForm(options{"headers": "none, ietf"}), "headers has none and others; keep one"},
		{shortForm(options{"headers": []any{"draft-06", "ietf"}}), "headers has ietf and draft-06, which write RateLimit-Policy in two forms; keep one"},
		{shortForm(options{"maxKeys": 0}), `maxKeys: "0" must be more than 0` + aWhole + "100000"},
		{shortForm(options{"maxKeys": "lots"}), `maxKeys: "lots" is not a number` + aWhole + "100000"},
		{shortForm(options{"upstreamHeaders": "keep"}), `upstreamHeaders: "keep" is neither add nor replace; write add or replace`},
		{shortForm(options{"dryRun": "perhaps"}), `dryRun: "perhaps"` + trueFalse},

		{oneWindow(options{"average": 1}), "limits[0] has both average (of a token bucket) and requests (of a fixed window)" + twoLimits},
		{oneWindow(options{"refill": "smooth"}), "limits[0] has both refill (of a token bucket) and requests (of a fixed window)" + twoLimits},
		{options{"limits": []any{options{"average": 1, "align": "clock"}}}, "limits[0] has both average (of a token bucket) and align (of a fixed window)" + twoLimits},
		{options{"limits": []any{options{"name": "a"}}}, "limits[0] has no numbers; write average (a token bucket), or requests and window (a fixed window)"},
		{options{"limits": []any{options{"requests": 1}}}, "limits[0].window is missing; write how long a window is, such as 1m"},
		{options{"limits": []any{options{"window": "1h"}}}, "limits[0].requests is missing; write how many requests a window allows, such as 100"},
		{options{"limits": []any{options{"burst": 1}}}, "limits[0].average is missing; write how many tokens a bucket gains per period, such as 10"},
		{oneWindow(options{"requests": 0}), `limits[0].requests: "0" must be more than 0` + aWhole + "100"},
		{oneWindow(options{"requests": 2.5}), `limits[0].requests: "2.5" must be a whole number` + aWhole + "100"},
		{oneWindow(options{"window": "1 h"}), `limits[0].window: "1 h" is not a duration` + aDuration},
		{oneWindow(options{"align": "middle"}), `limits[0].align: "middle" is neither first nor clock; write first or clock`},
		{options{"limits": []any{options{"average": 1, "refill": "drip"}}}, `limits[0].refill: "drip" is neither smooth nor interval; write smooth or interval`},
		{oneWindow(options{"name": "Per IP"}), `limits[0].name: "Per IP" is not a name; write a-z, 0-9 and -, such as per-ip`},
		{oneWindow(options{"name": "per_ip"}), `limits[0].name: "per_ip" is not a name; write a-z, 0-9 and -, such as per-ip`},
		{options{"limits": []any{options{"average": 1, "name": "a"}, options{"average": 1, "name": "a"}}}, `limits[1].name: "a" is the name of another limit too; write a name of its own for each limit`},
		{options{"limits": []any{options{"average": 1, "name": "limit-2"}, options{"average": 1}}}, `limits[1].name: "limit-2" is the name of another limit too; write a name of its own for each limit`},

		{oneWindow(options{"key": "addr"}), `limits[0].key: "addr" is not a part of a key; write ip, host, method, path, pattern, header:NAME, cookie:NAME, query:NAME, basic, jwt:CLAIM, body:FIELD or global`},
		{oneWindow(options{"key": []any{"ip", "header"}}), `limits[0].key: "header" lacks a name; write header:NAME`},
		{oneWindow(options{"key": "jwt:"}), `limits[0].key: "jwt:" lacks a name; write jwt:NAME`},
		{oneWindow(options{"key": "ip:x"}), `limits[0].key: "ip:x" takes no name; write ip`},
		{oneWindow(options{"key": "pattern"}), `limits[0].key: "pattern" needs patterns to choose from; write limits[0].match.paths, or take path instead`},
		{oneWindow(options{"onMissingKey": "block"}), `limits[0].onMissingKey: "block" is not an answer to a missing key; write ip, skip, share or reject`},

		{oneMatch(options{}), "limits[0].match is empty; write methods, hosts, paths or headers, or leave it out to match every request"},
		{oneMatch(options{"methods": ""}), "limits[0].match is empty; write methods, hosts, paths or headers, or leave it out to match every request"},
		{oneMatch(options{"paths": "api"}), `limits[0].match.paths: "api"` + aPattern},
		{oneMatch(options{"paths": "/a b"}), `limits[0].match.paths: "/a b"` + aPattern},
		{oneMatch(options{"hosts": "http://example.com"}), `limits[0].match.hosts: "http://example.com"` + aHost},
		{oneMatch(options{"hosts": "a.*.com"}), `limits[0].match.hosts: "a.*.com"` + aHost},
		{oneMatch(options{"headers": []any{options{"name": ""}}}), `limits[0].match.headers[0].name: "" is not the name of a header; write one such as X-Plan`},
		{oneMatch(options{"headers": []any{options{"name": "X", "value": "a\nb"}}}), `limits[0].match.headers[0].value: "a\nb" has a line break; write one line`},

		{oneWindow(options{"cost": 2}), `limits[0].cost: "2" is more than a bucket or window of this limit holds, so that such a request could never pass; write at most 1, or raise burst or requests`},
		{oneWindow(options{"cost": "dear"}), `limits[0].cost: "dear" is not a number` + aWhole + "5"},
		{oneWindow(options{"costs": []any{options{"match": options{"methods": "POST"}}}}), "limits[0].costs[0].cost is missing; write how many tokens such a request takes, such as 5"},
		{oneWindow(options{"costs": []any{options{"match": options{"methods": "POST"}, "cost": 5}}}), `limits[0].costs[0].cost: "5" is more than a bucket or window of this limit holds, so that such a request could never pass; write at most 1, or raise burst or requests`},
		{oneOverride(options{"key": "x"}), `limits[0].overrides[0].key: "x" is not an address; write one such as 192.0.2.1`},
		{oneOverride(options{"key": "192.0.2.1"}), "limits[0].overrides[0] changes nothing; write other numbers, such as requests: 1000, or unlimited: true"},
		{oneOverride(options{"key": "192.0.2.1", "unlimited": true, "requests": 5}), "limits[0].overrides[0] has both unlimited and requests; keep one"},
		{oneOverride(options{"key": "192.0.2.1", "average": 5}), "limits[0].overrides[0] has both average (of a token bucket) and requests (of a fixed window)" + twoLimits},
		{oneOverride(options{"key": "192.0.2.1", "requests": "x"}), `limits[0].overrides[0].requests: "x" is not a number` + aWhole + "100"},
		{oneOverride(options{"key": "192.0.2.1, 2", "requests": 5}), `limits[0].overrides[0].key: "192.0.2.1,2" does not have one value for each part of the limit's key; write a list of 1`},
		{oneWindow(options{"overrides": []any{options{"key": "192.0.2.1", "requests": 5}, options{"key": "192.0.2.1", "unlimited": true}}}), `limits[0].overrides[1].key: "192.0.2.1" has an override already; write one override for each key`},
		{oneWindow(options{"dryRun": "yes"}), `limits[0].dryRun: "yes"` + trueFalse},

		{shortForm(options{"exempt": options{"ips": "localhost"}}), `exempt.ips: "localhost"` + anAddress},
		{shortForm(options{"exempt": options{"paths": "healthz"}}), `exempt.paths: "healthz"` + aPattern},
		{shortForm(options{"exempt": options{"preflight": "sometimes"}}), `exempt.preflight: "sometimes"` + trueFalse},
		{shortForm(options{"exempt": options{"headers": []any{options{"name": "X-Internal"}}}}), "exempt.headers[0].value is missing; write the value of X-Internal"},
		{shortForm(options{"reject": options{"statusCode": 200}}), `reject.statusCode: "200" is not the status of an error; write 400 to 599, such as 429 or 503`},
		{shortForm(options{"reject": options{"statusCode": "teapot"}}), `reject.statusCode: "teapot" is not a number` + aWhole + "429"},
		{shortForm(options{"reject": options{"contentType": "application/xml"}}), `reject.contentType: "application/xml" has no body of its own; write reject.body too, or application/problem+json, text/plain or text/html`},
		{shortForm(options{"reject": options{"contentType": "a\nb", "body": "x"}}), `reject.contentType: "a\nb" has a line break; write one line`},
		{shortForm(options{"reject": options{"headers": []any{options{"name": "X Y", "value": "1"}}}}), `reject.headers[0].name: "X Y" is not the name of a header; write one such as X-Plan`},
		{shortForm(options{"reject": options{"headers": []any{options{"name": "X"}}}}), "reject.headers[0].value is missing; write the value of X"},
		{shortForm(options{"reject": options{"jitter": "10ms"}}), `reject.jitter: "10ms" is less than Retry-After can tell; write whole seconds, such as 5s`},
		{shortForm(options{"log": options{"level": "info"}}), `log.level: "info" is not a level that a plugin can log at; write debug, error or none`},
		{shortForm(options{"log": options{"interval": "often"}}), `log.interval: "often" is not a duration` + aDuration},
		{shortForm(options{"log": options{"each": "so often"}}), `log.each: "so often"` + trueFalse},

		{shortForm(options{"avrage": 1}), "avrage" + unknown + "average?"},
		{shortForm(options{"Brust": 1}), "Brust" + unknown + "burst?"},
		{shortForm(options{"sourceCriterion": options{"requestHeader": "X"}}), "sourceCriterion.requestHeader" + unknown + "requestHeaderName?"},
		{shortForm(options{"sourceCriterion": options{"ipStrategy": options{"excludeIPs": "X"}}}), "sourceCriterion.ipStrategy.excludeIPs" + unknown + "excludedIPs?"},
		{shortForm(options{"ipStrategy": options{"strategy": 64}}), "ipStrategy.strategy: there is no such option; here can stand depth, excludedIPs, ipv6Subnet"},
		{options{"limits": []any{options{"average": 1}, options{"reqests": 1, "window": "1h"}}}, "limits[1].reqests" + unknown + "requests?"},
		{oneMatch(options{"method": "GET"}), "limits[0].match.method" + unknown + "methods?"},
		{oneMatch(options{"headers": []any{options{"nam": "x"}}}), "limits[0].match.headers[0].nam" + unknown + "name?"},
		{oneOverride(options{"keys": "x"}), "limits[0].overrides[0].keys" + unknown + "key?"},
		{oneWindow(options{"costs": []any{options{"costs": "x"}}}), "limits[0].costs[0].costs" + unknown + "cost?"},
		{shortForm(options{"exempt": options{"ip": "x"}}), "exempt.ip" + unknown + "ips?"},
		{shortForm(options{"reject": options{"statuscod": 429}}), "reject.statuscod" + unknown + "statusCode?"},
		{shortForm(options{"log": options{"lvl": 429}}), "log.lvl: there is no such option; here can stand level, interval, each"},
	} {
		h, err := build(row.options, service, fresh(t))
		require.EqualError(t, err, "sluice: "+row.want, "%v", row.options)
		require.Nil(t, h)
	}
}

// TestMistakesInPatterns are reported in the standard library's words, which may change with its version.
func TestMistakesInPatterns(t *testing.T) {
	_, err := build(oneMatch(options{"paths": "/a/{id"}), service, fresh(t))
	require.ErrorContains(t, err, `limits[0].match.paths: "/a/{id" is not a path pattern that can stand here (`)
	_, err = build(oneMatch(options{"paths": []any{"/a/{x}", "/{y}/b"}}), service, fresh(t))
	require.ErrorContains(t, err, `limits[0].match.paths: "/{y}/b" is not a path pattern that can stand here (`)
	require.NotContains(t, err.Error(), "registered at")
}
