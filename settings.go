package sluice

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// The options beside a limit's numbers: keys, matches, exemptions, headers, refusals, log. As config.go, it runs in
// New only.

// compileSettings reads everything but the limits.
func compileSettings(r *rules, config *Config, strategy optionAt) (err error) {
	if r.client, err = compileClient(strategy); err != nil {
		return err
	}
	if r.exempt, err = compileExempt(config.Exempt); err != nil {
		return err
	}
	if r.styles, err = compileHeaders(config.Headers); err != nil {
		return err
	}
	if r.replace, err = choice("upstreamHeaders", config.UpstreamHeaders, "add", "replace"); err != nil {
		return err
	}
	if r.reject, err = compileReject(config.Reject); err != nil {
		return err
	}
	if r.log, err = compileLog(config.Log); err != nil {
		return err
	}
	if r.dryRunAll, err = boolean("dryRun", config.DryRun, false); err != nil {
		return err
	}
	r.maxKeys, err = whole("maxKeys", orDefault(config.MaxKeys, "100000"), "100000")
	return err
}

// compileKey reads the parts of a limit's key; none means the client's address.
func compileKey(l *limit, c *LimitConfig, path string) error {
	var words []string
	for _, text := range list(c.Key) {
		part, err := compileKeyPart(text, path+"key")
		if err != nil {
			return err
		}
		if part.source == fromPattern && (l.match == nil || l.match.paths == nil) {
			return bad(path+"key", text, "needs patterns to choose from", path+"match.paths, or take path instead")
		}
		l.parts = append(l.parts, part)
		if needs := needsOf(part); needs != "" {
			words = append(words, needs)
		}
	}
	if len(l.parts) == 0 {
		l.parts = []keyPart{{source: fromIP}}
	}
	if len(l.parts) == 1 {
		l.byIP = l.parts[0].source == fromIP
		if l.parts[0].source == fromHeader && !l.parts[0].fold {
			l.header = l.parts[0].name
		}
	}
	l.wants = strings.Join(words, " or ")
	switch strings.TrimSpace(c.OnMissingKey) {
	case "", "ip":
		l.onMissing = missingCountsIP
	case "skip":
		l.onMissing = missingSkips
	case "share":
		l.onMissing = missingShares
	case "reject":
		l.onMissing = missingRejects
	default:
		return bad(path+"onMissingKey", c.OnMissingKey, "is not an answer to a missing key", "ip, skip, share or reject")
	}
	return nil
}

// needsOf is what a request must have to have a part of a key, in words; "" if every request has it.
func needsOf(part keyPart) string {
	for _, source := range keySources {
		if source.source == part.source && source.words != "" {
			return source.words + part.name
		}
	}
	return ""
}

func compileKeyPart(text, path string) (keyPart, error) {
	word, fold := strings.CutPrefix(text, "lower:")
	kind, name, _ := strings.Cut(word, ":")
	name = strings.TrimSpace(name)
	source, known := keySources[kind]
	switch {
	case !known:
		return keyPart{}, bad(path, text, "is not a part of a key",
			"ip, host, method, path, pattern, header:NAME, cookie:NAME, query:NAME, basic, jwt:CLAIM, body:FIELD or global")
	case source.named && name == "":
		return keyPart{}, bad(path, text, "lacks a name", kind+":NAME")
	case !source.named && name != "":
		return keyPart{}, bad(path, text, "takes no name", kind)
	}
	if source.source == fromHeader {
		if strings.Trim(name, headerLetters) != "" {
			return keyPart{}, bad(path, text, "is not the name of a header", "header:X-Api-Key, for example")
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name == "Host" {
			return keyPart{}, bad(path, text, "is not found among the headers", "host")
		}
	}
	return keyPart{source: source.source, name: name, fold: fold, secret: source.secret}, nil
}

// headerLetters are what the name of a header is made of (RFC 9110, section 5.6.2).
const headerLetters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// keySources are the words that may stand in a key.
var keySources = map[string]keySource{
	"ip":      {source: fromIP},
	"host":    {source: fromHost},
	"method":  {source: fromMethod},
	"path":    {source: fromPath},
	"pattern": {source: fromPattern},
	"header":  {source: fromHeader, named: true, secret: true, words: "the header "},
	"cookie":  {source: fromCookie, named: true, secret: true, words: "the cookie "},
	"query":   {source: fromQuery, named: true, secret: true, words: "the query parameter "},
	"basic":   {source: fromBasic, secret: true, words: "a user name"},
	"jwt":     {source: fromJWT, named: true, secret: true, words: "a bearer token with the claim "},
	"body":    {source: fromBody, named: true, secret: true, words: "a body with the field "},
	"global":  {source: fromGlobal},
}

type keySource struct {
	source        int
	named, secret bool
	words         string // what a request lacks that lacks it
}

func compileExempt(c *ExemptConfig) (exemption, error) {
	e := exemption{preflight: true}
	if c == nil {
		return e, nil
	}
	var err error
	if e.preflight, err = boolean("exempt.preflight", c.Preflight, true); err != nil {
		return e, err
	}
	if e.addresses, err = prefixes("exempt.ips", c.IPs); err != nil {
		return e, err
	}
	if e.paths, err = compilePaths(c.Paths, "exempt.paths"); err != nil {
		return e, err
	}
	if len(list(c.Methods)) > 0 {
		methods, err := compileMatch(&MatchConfig{Methods: c.Methods}, "exempt")
		if err != nil {
			return e, err
		}
		e.methods = methods.methods
	}
	// A name alone would let everybody exempt himself by sending the header.
	headers, err := compileHeaderMatches(c.Headers, "exempt.headers", true)
	if err == nil && len(headers) > 0 {
		e.matchers = append(e.matchers, &matcher{headers: headers})
	}
	return e, err
}

func compileReject(c *RejectConfig) (rejection, error) {
	r := rejection{status: http.StatusTooManyRequests}
	if c == nil {
		return r, nil
	}
	r.custom = c.StatusCode != "" || c.ContentType != "" || c.Body != "" || len(c.Headers) > 0
	if c.StatusCode != "" {
		status, err := whole("reject.statusCode", c.StatusCode, "429")
		if err != nil {
			return r, err
		}
		if status < 400 || status > 599 {
			return r, bad("reject.statusCode", c.StatusCode, "is not the status of an error", "400 to 599, such as 429 or 503")
		}
		r.status = int(status)
	}
	r.body = c.Body
	r.contentType = strings.TrimSpace(c.ContentType)
	if strings.ContainsAny(r.contentType, "\r\n") {
		return r, bad("reject.contentType", c.ContentType, "has a line break", "one line")
	}
	switch {
	case r.body == "" && r.contentType != "":
		kinds := map[string]string{"text/plain": plainType, "text/html": htmlType, problemType: problemType, plainType: plainType, htmlType: htmlType}
		if r.contentType = kinds[r.contentType]; r.contentType == "" {
			return r, bad("reject.contentType", c.ContentType, "has no body of its own", "reject.body too, or application/problem+json, text/plain or text/html")
		}
	case r.body != "" && r.contentType == "":
		r.contentType = guessType(r.body)
	}
	var err error
	if r.headers, err = compileHeaderMatches(c.Headers, "reject.headers", true); err != nil {
		return r, err
	}
	if c.Jitter != "" {
		if r.jitter, err = duration("reject.jitter", c.Jitter); err != nil {
			return r, err
		}
		if r.jitter < second {
			return r, bad("reject.jitter", c.Jitter, "is less than Retry-After can tell", "whole seconds, such as 5s")
		}
	}
	return r, nil
}

// guessType is the type of a body by how it begins.
func guessType(body string) string {
	body = strings.TrimSpace(body)
	switch {
	case strings.HasPrefix(body, "{") || strings.HasPrefix(body, "["):
		return "application/json"
	case strings.HasPrefix(body, "<"):
		return htmlType
	}
	return plainType
}

func compileLog(c *LogConfig) (logging, error) {
	l := logging{interval: 60 * second}
	if c == nil {
		return l, nil
	}
	switch strings.TrimSpace(c.Level) {
	case "", "debug":
	case "error":
		l.loud = true
	case "none":
		l.off = true
	default:
		return l, bad("log.level", c.Level, "is not a level that a plugin can log at", "debug, error or none")
	}
	var err error
	if c.Interval != "" {
		if l.interval, err = duration("log.interval", c.Interval); err != nil {
			return l, err
		}
	}
	l.each, err = boolean("log.each", c.Each, false)
	return l, err
}

func compileClient(at optionAt) (clientStrategy, error) {
	client := clientStrategy{subnet: 64}
	c := at.strategy
	if c == nil {
		return client, nil
	}
	if c.Depth != "" {
		depth, err := wholeOrZero(at.path+".depth", c.Depth, "1")
		if err != nil {
			return client, err
		}
		if depth > maxForwarded {
			return client, bad(at.path+".depth", c.Depth, "is more than "+strconv.Itoa(maxForwarded), "the number of proxies in front, such as 1")
		}
		client.depth = int(depth)
	}
	if c.IPv6Subnet != "" {
		subnet, err := whole(at.path+".ipv6Subnet", c.IPv6Subnet, "64")
		if err != nil {
			return client, err
		}
		if subnet > 128 {
			return client, bad(at.path+".ipv6Subnet", c.IPv6Subnet, "is more than 128 bits", "64, or 56 to 48 for whole sites")
		}
		client.subnet = int(subnet)
	}
	var err error
	client.excluded, err = prefixes(at.path+".excludedIPs", c.ExcludedIPs)
	client.forwarded = client.depth > 0 || len(client.excluded) > 0
	if err == nil && client.depth > 0 && len(client.excluded) > 0 {
		err = fmt.Errorf("sluice: %s has both depth and excludedIPs; keep one", at.path)
	}
	return client, err
}

func compileHeaders(styles []string) (s headerStyles, err error) {
	names := list(styles)
	if len(names) == 0 {
		s.xRateLimit = true
		return s, nil
	}
	none := false
	for _, style := range names {
		switch style {
		case "x-ratelimit":
			s.xRateLimit = true
		case "ietf":
			s.ietf = true
		case "draft-06":
			s.draft06 = true
		case "none":
			none = true
		default:
			return s, bad("headers", style, "is not a style of headers", "x-ratelimit, ietf, draft-06 or none")
		}
	}
	switch {
	case none && len(names) > 1:
		err = errors.New("sluice: headers has none and others; keep one")
	case s.ietf && s.draft06:
		err = errors.New("sluice: headers has ietf and draft-06, which write RateLimit-Policy in two forms; keep one")
	}
	return s, err
}
