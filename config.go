package sluice

import (
	"errors"
	"fmt"
	"net/textproto"
	"reflect"
	"strconv"
	"strings"
)

// Options into limits ready to run. This runs in New only, and is ordinary Go. Every mistake that an operator can make ends in one error, which names
// the option by its path and says what to write instead.

// rules is one configuration of a middleware, ready to run. It is shared by all its routers and never changes.
type rules struct {
	config *Config // what the rules were made of
	limits []*limit
	simple bool // see bucketByPeer
	client clientStrategy

	xRateLimit bool
}

// limit is one limit, ready to run.
type limit struct {
	name    string
	parts   []keyPart
	byIP    bool // parts is just the client's address
	numbers *numbers
	table   *table
}

const defaultMaxKeys = 100_000

// compile turns the options of the middleware of this name into rules.
func compile(config *Config, name string) (*rules, error) {
	if err := unknownOption(reflect.ValueOf(*config), ""); err != nil {
		return nil, err
	}
	limits, paths, strategy, err := normalize(config)
	if err != nil {
		return nil, err
	}
	r := &rules{config: config}
	if r.client, err = compileClient(strategy); err != nil {
		return nil, err
	}
	if r.xRateLimit, err = compileHeaders(config.Headers); err != nil {
		return nil, err
	}
	maxKeys := int64(defaultMaxKeys)
	if config.MaxKeys != "" {
		if maxKeys, err = whole("maxKeys", config.MaxKeys, "100000"); err != nil {
			return nil, err
		}
	}
	for i := range limits {
		l, err := compileLimit(&limits[i], paths[i], "limit-"+strconv.Itoa(i+1))
		if err != nil {
			return nil, err
		}
		for _, other := range r.limits {
			if other.name == l.name {
				return nil, bad(paths[i]+"name", l.name, "is the name of another limit too", "a name of its own for each limit")
			}
		}
		l.numbers.maxKeys = maxKeys
		r.limits = append(r.limits, l)
	}
	// Only now, when nothing can fail any more, does the middleware get its counters.
	for _, l := range r.limits {
		// A limit that counts other keys, or by the other algorithm, is another limit.
		id := fmt.Sprintf("%s %s %v %v", name, l.name, l.parts, isWindow(l.numbers.policy))
		l.table = tableFor(id, l.numbers)
	}
	only := r.limits[0]
	r.simple = len(r.limits) == 1 && only.byIP && only.numbers.policy.kind == smoothBucket &&
		r.client.depth == 0 && len(r.client.excluded) == 0 && r.xRateLimit
	return r, nil
}

// normalize brings the short form, which is Traefik's own rateLimit block, into the full one. paths are what to call the options of each limit in
// an error.
func normalize(config *Config) (limits []LimitConfig, paths []string, strategy optionAt, err error) {
	strategy = optionAt{config.IPStrategy, "ipStrategy"}
	short := config.Average != "" || config.Period != "" || config.Burst != ""
	source := config.SourceCriterion
	switch {
	case short && len(config.Limits) > 0:
		return nil, nil, strategy, errors.New("sluice: average, period and burst stand beside limits; move them into an item of limits")
	case source != nil && len(config.Limits) > 0:
		return nil, nil, strategy, errors.New("sluice: sourceCriterion stands beside limits; write key in each item of limits, and ipStrategy at the top")
	case !short && len(config.Limits) == 0:
		return nil, nil, strategy, errors.New("sluice: there is no limit; write average (and period, burst), or a list of limits")
	case !short:
		for i := range config.Limits {
			paths = append(paths, "limits["+strconv.Itoa(i)+"].")
		}
		return config.Limits, paths, strategy, nil
	}
	l := LimitConfig{Average: config.Average, Period: config.Period, Burst: config.Burst}
	if source != nil {
		if l.Key, err = compileSource(source); err != nil {
			return nil, nil, strategy, err
		}
		if source.IPStrategy != nil {
			if config.IPStrategy != nil {
				return nil, nil, strategy, errors.New("sluice: ipStrategy stands at the top and in sourceCriterion; keep one")
			}
			strategy = optionAt{source.IPStrategy, "sourceCriterion.ipStrategy"}
		}
	}
	return []LimitConfig{l}, []string{""}, strategy, nil
}

// optionAt is where the address strategy was written, for errors.
type optionAt struct {
	strategy *IPStrategy
	path     string
}

func compileSource(source *SourceCriterion) ([]string, error) {
	host, err := boolean("sourceCriterion.requestHost", source.RequestHost)
	if err != nil {
		return nil, err
	}
	switch {
	case source.IPStrategy != nil && source.RequestHeaderName != "":
		return nil, errors.New("sluice: sourceCriterion has both ipStrategy and requestHeaderName; keep one, or write limits with a key of several parts")
	case source.IPStrategy != nil && host:
		return nil, errors.New("sluice: sourceCriterion has both ipStrategy and requestHost; keep one, or write limits with a key of several parts")
	case source.RequestHeaderName != "" && host:
		return nil, errors.New("sluice: sourceCriterion has both requestHeaderName and requestHost; keep one, or write limits with a key of several parts")
	case source.RequestHeaderName != "":
		return []string{"header:" + source.RequestHeaderName}, nil
	case host:
		return []string{"host"}, nil
	}
	return nil, nil
}

// compileLimit turns one limit's options, found at path, into a limit without a table.
func compileLimit(c *LimitConfig, path, defaultName string) (*limit, error) {
	l := &limit{name: c.Name}
	if l.name == "" {
		l.name = defaultName
	}
	if strings.Trim(l.name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, bad(path+"name", c.Name, "is not a name", "a-z, 0-9 and -, such as per-ip")
	}
	var err error
	if l.parts, err = compileKey(c.Key, path+"key"); err != nil {
		return nil, err
	}
	l.byIP = len(l.parts) == 1 && l.parts[0].source == fromIP
	p, err := compilePolicy(c, path)
	if err != nil {
		return nil, err
	}
	l.numbers = &numbers{policy: p, life: p.full}
	return l, nil
}

// compilePolicy reads the numbers of a token bucket or of a fixed window.
func compilePolicy(c *LimitConfig, path string) (*policy, error) {
	bucket := firstSet("average", c.Average, "period", c.Period, "burst", c.Burst, "refill", c.Refill)
	window := firstSet("requests", c.Requests, "window", c.Window, "align", c.Align)
	switch {
	case bucket != "" && window != "":
		return nil, fmt.Errorf("sluice: %s has both %s (of a token bucket) and %s (of a fixed window); keep one, or write two limits", place(path), bucket, window)
	case bucket != "" && c.Average == "":
		return nil, fmt.Errorf("sluice: %saverage is missing; write how many tokens a bucket gains per period, such as 10", path)
	case bucket != "":
		return compileBucket(c, path)
	case window == "":
		return nil, fmt.Errorf("sluice: %s has no numbers; write average (a token bucket), or requests and window (a fixed window)", place(path))
	case c.Requests == "":
		return nil, fmt.Errorf("sluice: %srequests is missing; write how many requests a window allows, such as 100", path)
	case c.Window == "":
		return nil, fmt.Errorf("sluice: %swindow is missing; write how long a window is, such as 1m", path)
	}
	return compileWindow(c, path)
}

func compileBucket(c *LimitConfig, path string) (*policy, error) {
	average, err := parseDecimal(c.Average)
	if err != nil {
		return nil, bad(path+"average", c.Average, err.Error(), "tokens per period, such as 10 or 0.5")
	}
	period := second
	if c.Period != "" {
		if period, err = duration(path+"period", c.Period); err != nil {
			return nil, err
		}
	}
	burst := average.ceil()
	if c.Burst != "" {
		if burst, err = whole(path+"burst", c.Burst, "20"); err != nil {
			return nil, err
		}
	}
	interval, err := choice(path+"refill", c.Refill, "smooth", "interval")
	if err != nil {
		return nil, err
	}
	p := newBucket(average, period, burst, interval)
	if p == nil {
		return nil, fmt.Errorf("sluice: %s with average %s, period %s and burst %s cannot be counted: it gains more than a token a nanosecond, or takes more than 146 years to fill",
			place(path), c.Average, orDefault(c.Period, "1s"), orDefault(c.Burst, strconv.FormatInt(burst, 10)))
	}
	return withHeader(p), nil
}

func compileWindow(c *LimitConfig, path string) (*policy, error) {
	requests, err := whole(path+"requests", c.Requests, "100")
	if err != nil {
		return nil, err
	}
	length, err := duration(path+"window", c.Window)
	if err != nil {
		return nil, err
	}
	clock, err := choice(path+"align", c.Align, "first", "clock")
	if err != nil {
		return nil, err
	}
	return withHeader(newWindow(requests, length, clock)), nil
}

// withHeader prepares what the responses show of p.
func withHeader(p *policy) *policy {
	p.limitHeader = []string{strconv.FormatInt(p.size, 10)}
	return p
}

// compileKey reads the parts of a key; none means the client's address.
func compileKey(key []string, path string) ([]keyPart, error) {
	var parts []keyPart
	for _, text := range list(key) {
		kind, name, _ := strings.Cut(text, ":")
		name = strings.TrimSpace(name)
		part, known := keySources[kind]
		switch {
		case !known:
			return nil, bad(path, text, "is not a part of a key", "ip, host, method, path, header:NAME or global")
		case part.named && name == "":
			return nil, bad(path, text, "lacks a name", kind+":NAME")
		case !part.named && name != "":
			return nil, bad(path, text, "takes no name", kind)
		}
		if part.source == fromHeader {
			name = textproto.CanonicalMIMEHeaderKey(name)
		}
		parts = append(parts, keyPart{source: part.source, name: name, secret: part.secret})
	}
	if len(parts) == 0 {
		parts = []keyPart{{source: fromIP}}
	}
	return parts, nil
}

// keySources are the words that may stand in a key.
var keySources = map[string]struct {
	source        int
	named, secret bool
}{
	"ip":     {source: fromIP},
	"host":   {source: fromHost},
	"method": {source: fromMethod},
	"path":   {source: fromPath},
	"header": {source: fromHeader, named: true, secret: true},
	"global": {source: fromGlobal},
}

func compileClient(at optionAt) (clientStrategy, error) {
	client := clientStrategy{subnet: 64}
	c := at.strategy
	if c == nil {
		return client, nil
	}
	if c.Depth != "" && strings.Trim(c.Depth, "0") != "" {
		depth, err := whole(at.path+".depth", c.Depth, "1")
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
	if err == nil && client.depth > 0 && len(client.excluded) > 0 {
		err = fmt.Errorf("sluice: %s has both depth and excludedIPs; keep one", at.path)
	}
	return client, err
}

func compileHeaders(styles []string) (xRateLimit bool, err error) {
	names := list(styles)
	if len(names) == 0 {
		return true, nil
	}
	none := false
	for _, style := range names {
		switch style {
		case "x-ratelimit":
			xRateLimit = true
		case "none":
			none = true
		default:
			return false, bad("headers", style, "is not a style of headers", "x-ratelimit or none")
		}
	}
	if none && len(names) > 1 {
		return false, errors.New("sluice: headers has none and others; keep one")
	}
	return xRateLimit, nil
}
