package sluice

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The options that make an exception: other numbers for some keys, other costs for some requests. As config.go, this
// runs in New only.

// compileOverrides reads the numbers for single keys.
func compileOverrides(l *limit, subnet int, c *LimitConfig, path string) error {
	for i := range c.Overrides {
		o := &c.Overrides[i]
		at := path + "overrides[" + strconv.Itoa(i) + "]."
		key, err := overrideKey(l, subnet, o.Key, at+"key")
		if err != nil {
			return err
		}
		free, err := boolean(at+"unlimited", o.Unlimited, false)
		if err != nil {
			return err
		}
		written := firstSet("average", o.Average, "period", o.Period, "burst", o.Burst, "requests", o.Requests, "window", o.Window)
		var p *policy
		switch {
		case free && written != "":
			return fmt.Errorf("sluice: %s has both unlimited and %s; keep one", place(at), written)
		case free:
			p = &policy{kind: unlimited, size: maxTokens, token: 1, capacity: maxUnits}
		case written == "":
			return fmt.Errorf("sluice: %s changes nothing; write other numbers, such as requests: 1000, or unlimited: true", place(at))
		default:
			other := *c
			other.Average = orDefault(o.Average, c.Average)
			other.Period = orDefault(o.Period, c.Period)
			other.Burst = orDefault(o.Burst, c.Burst)
			other.Requests = orDefault(o.Requests, c.Requests)
			other.Window = orDefault(o.Window, c.Window)
			if p, err = compilePolicy(&other, at); err != nil {
				return err
			}
		}
		if l.numbers.overrides == nil {
			l.numbers.overrides = map[string]*policy{}
		}
		if l.numbers.overrides[key] != nil {
			return bad(at+"key", strings.Join(o.Key, ","), "has an override already", "one override for each key")
		}
		l.numbers.overrides[key] = shown(p, l.name)
		if p.full > l.numbers.life {
			l.numbers.life = p.full
		}
	}
	return nil
}

// overrideKey is the key under which requests with these values are counted.
func overrideKey(l *limit, subnet int, values []string, path string) (string, error) {
	values = list(values)
	if len(values) != len(l.parts) {
		return "", bad(path, strings.Join(values, ","), "does not have one value for each part of the limit's key", "a list of "+strconv.Itoa(len(l.parts)))
	}
	for i, part := range l.parts {
		switch {
		case part.source == fromIP:
			addr, err := netip.ParseAddr(values[i])
			if err != nil {
				return "", bad(path, values[i], "is not an address", "one such as 192.0.2.1")
			}
			values[i] = addressKey(addr.Unmap().WithZone(""), subnet)
		case part.source == fromHost || part.fold:
			values[i] = strings.ToLower(values[i])
		}
	}
	if l.byIP {
		return values[0], nil
	}
	if len(values) == 1 {
		return storedKey(values[0], l.parts[0].secret, l.salt), nil
	}
	return keyOfValues(values, l.parts, l.salt), nil
}

// compileCosts reads what requests take. A cost above the size of a bucket or window could never be paid.
func compileCosts(l *limit, c *LimitConfig, path string) error {
	var err error
	l.cost = 1
	if c.Cost != "" {
		if l.cost, err = cost(l, c.Cost, path+"cost"); err != nil {
			return err
		}
	}
	for i := range c.Costs {
		at := path + "costs[" + strconv.Itoa(i) + "]."
		one := matchedCost{}
		if one.match, err = compileMatch(c.Costs[i].Match, at+"match"); err != nil {
			return err
		}
		if c.Costs[i].Cost == "" {
			return fmt.Errorf("sluice: %scost is missing; write how many tokens such a request takes, such as 5", at)
		}
		if one.cost, err = cost(l, c.Costs[i].Cost, at+"cost"); err != nil {
			return err
		}
		l.costs = append(l.costs, one)
	}
	return nil
}

// cost reads a cost, which may be 0.
func cost(l *limit, value, path string) (int64, error) {
	n, err := wholeOrZero(path, value, "5")
	if err != nil {
		return 0, err
	}
	least := l.numbers.policy.size
	for _, p := range l.numbers.overrides {
		if p.size < least {
			least = p.size
		}
	}
	if n > least {
		return 0, bad(path, value, "is more than a bucket or window of this limit holds, so that such a request could never pass", "at most "+strconv.FormatInt(least, 10)+", or raise burst or requests")
	}
	return n, nil
}
