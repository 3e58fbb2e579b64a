package sluice

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Options into limits ready to run. This runs in New only, and is ordinary Go. Every mistake that an operator can
// make ends in one error, which names the option by its path and says what to write instead.

// rules is one configuration of a middleware, ready to run. It is shared by all its routers and never changes.
type rules struct {
	config *Config // what the rules were made of
	limits []*limit
	simple bool // see bucketByPeer
	client clientStrategy

	maxKeys   int64
	dryRunAll bool

	exempt exemption
	styles headerStyles
	reject rejection
	log    logging

	shared  *sharing // nil: the counters are in this process alone
	replace bool     // of the service's own header fields, see replacing
	dryRun  bool     // some limit is in dry run
	exempts bool     // exempt has more than preflights
	details bool     // see limit.details
	several bool     // see limit.several
}

// limit is one limit, ready to run.
type limit struct {
	name    string
	title   string // how a line in the log begins
	logging *logging

	match     *matcher // nil: every request
	parts     []keyPart
	byIP      bool   // parts is just the client's address
	salt      string // of keys that are hashed
	header    string // parts is just this header
	onMissing int    // see keyOf
	wants     string // what parts asks of a request, in words
	cost      int64
	costs     []matchedCost
	dryRun    bool

	numbers *numbers
	table   *table

	// What the middleware's limits have in common.
	details bool // responses tell of every limit, not of one alone
	several bool // which limit a field with one value shows has to be found out for each request
	moved   bool // they are not in the order of their tables
}

// matchedCost is the cost of the requests that fit a match.
type matchedCost struct {
	match *matcher
	cost  int64
}

// compile turns the options of the middleware of this name into rules.
func compile(config *Config, name string) (*rules, error) {
	r := &rules{config: config}
	config = inOrder(config, name)
	if err := unknownOption(reflect.ValueOf(*config), ""); err != nil {
		return nil, err
	}
	limits, paths, strategy, err := normalize(config)
	if err != nil {
		return nil, err
	}
	if err := compileSettings(r, config, strategy); err != nil {
		return nil, err
	}
	if config.Redis != nil {
		if r.shared, err = compileRedis(config.Redis, name); err != nil {
			return nil, err
		}
	}
	for i := range limits {
		l, err := compileLimit(r, &limits[i], paths[i], "limit-"+strconv.Itoa(i+1))
		if err != nil {
			return nil, err
		}
		for _, other := range r.limits {
			if other.name == l.name {
				return nil, bad(paths[i]+"name", l.name, "is the name of another limit too", "a name of its own for each limit")
			}
		}
		l.title = "sluice: " + name + ": the limit " + l.name + " refused"
		if l.dryRun {
			l.title = "sluice: " + name + ": the limit " + l.name + ", in dry run, would have refused"
		}
		r.limits = append(r.limits, l)
		r.dryRun = r.dryRun || l.dryRun
	}
	if r.shared != nil {
		if err := shareLimits(r.shared, r.limits, name); err != nil {
			return nil, err
		}
	}
	// Only now, when nothing can fail any more, does the middleware get its counters.
	for _, l := range r.limits {
		// A limit that counts other keys, or by the other algorithm, is another limit.
		l.table = tableFor(fmt.Sprintf("%s %s %v %v", name, l.name, l.parts, isWindow(l.numbers.policy)), l.numbers)
	}
	summarize(r)
	return r, nil
}

// summarize notes what the request path would otherwise find out again and again.
func summarize(r *rules) {
	e := &r.exempt
	r.exempts = e.methods != nil || len(e.matchers) > 0 || len(e.addresses) > 0 || e.paths != nil
	r.details = r.styles.ietf || r.styles.draft06 || r.dryRun
	r.several = len(r.limits) > 1 || r.dryRun
	moved := false
	for i, l := range r.limits {
		r.several = r.several || l.numbers.overrides != nil // which may lift it
		moved = moved || i > 0 && l.table.order < r.limits[i-1].table.order
	}
	for _, l := range r.limits {
		l.details = r.details
		l.several = r.several
		l.moved = moved
	}
	r.simple = isSimple(r)
}

// isSimple says whether bucketByPeer does all that these rules ask for.
func isSimple(r *rules) bool {
	l := r.limits[0]
	return len(r.limits) == 1 && l.byIP && l.numbers.overrides == nil &&
		l.numbers.policy.kind == smoothBucket && l.numbers.policy.size < smallNumberCount &&
		l.match == nil && l.cost == 1 && l.costs == nil && !l.dryRun &&
		!r.client.forwarded &&
		!r.exempts && r.exempt.preflight &&
		r.styles == headerStyles{xRateLimit: true} && !r.replace
}

// normalize brings the short form, which is Traefik's own rateLimit block, into the full one: limits, what to call
// the options of each in an error, and the address strategy.
//
// The results have no names: Yaegi loses a struct that is assigned, as a literal, to a named result.
func normalize(config *Config) ([]LimitConfig, []string, optionAt, error) {
	var paths []string
	var err error
	strategy := optionAt{config.IPStrategy, "ipStrategy"}
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
	host, err := boolean("sourceCriterion.requestHost", source.RequestHost, false)
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
func compileLimit(r *rules, c *LimitConfig, path, defaultName string) (*limit, error) {
	l := &limit{name: orDefault(strings.TrimSpace(c.Name), defaultName), logging: &r.log, salt: hashSalt()}
	if r.shared != nil {
		l.salt = r.shared.salt
	}
	if strings.Trim(l.name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, bad(path+"name", c.Name, "is not a name", "a-z, 0-9 and -, such as per-ip")
	}
	dryRun, err := boolean(path+"dryRun", c.DryRun, r.dryRunAll)
	if err != nil {
		return nil, err
	}
	l.dryRun = dryRun || r.dryRunAll
	if l.match, err = compileMatch(c.Match, path+"match"); err != nil {
		return nil, err
	}
	if err := compileKey(l, c, path); err != nil {
		return nil, err
	}
	p, err := compilePolicy(c, path)
	if err != nil {
		return nil, err
	}
	l.numbers = &numbers{policy: shown(p, l.name), life: p.full, maxKeys: r.maxKeys}
	if err := compileOverrides(l, r.client.subnet, c, path); err != nil {
		return nil, err
	}
	return l, compileCosts(l, c, path)
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
	average, err := parseDecimal(strings.TrimSpace(c.Average))
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
		return nil, fmt.Errorf("sluice: %s with average %s, period %s and burst %s cannot be counted: it gains more than a token a nanosecond, or takes more than 73 years to fill",
			place(path), c.Average, orDefault(c.Period, "1s"), orDefault(c.Burst, strconv.FormatInt(burst, 10)))
	}
	return p, nil
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
	return newWindow(requests, length, clock), nil
}

// shown prepares how the responses show p.
func shown(p *policy, name string) *policy {
	p.limitHeader = []string{strconv.FormatInt(p.size, 10)}
	p.ietfItem = ietfPolicyItem(name, p)
	p.draft06Item = draft06Item(p)
	return p
}
