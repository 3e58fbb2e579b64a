package sluice

// Fixed window: at most so many requests in each window of a key, whoever asks and however many at once. Its known
// property is that twice as many can pass around a boundary: all of one window at its end, all of the next at its
// beginning. Where that is too much, put a token bucket beside it, or in its place.
//
// A window's counter has the form of a bucket's: what is spent is the requests counted, and a token is one unit.

// newWindow builds the policy of a window of requests in every length (nanoseconds), both positive. clock says that
// windows are UTC multiples of their length (one of 24h begins at midnight) instead of opening at a key's first
// request.
func newWindow(requests, length int64, clock bool) *policy {
	kind := firstWindow
	if clock {
		kind = clockWindow
	}
	return &policy{kind: kind, size: requests, token: 1, capacity: requests, period: length, full: length}
}

// settleFirstWindow closes a window that is over. While nothing is counted no window is open, and c.at moves along: a
// window opens at the first request that is charged, not at one that another limit refused.
func settleFirstWindow(c *counter, now int64) {
	if c.at < now && (c.spent == 0 || now-c.at >= c.policy.period) {
		c.at = now
		c.spent = 0
	}
}

// settleClockWindow closes a window that is over and begins the one that the wall clock is in. An open window ends by
// the monotonic clock: when the wall clock jumps, none is cut short or counted twice, and only the next one is
// aligned anew.
func settleClockWindow(c *counter, now, epoch int64) {
	if c.at <= now && (c.spent == 0 || now-c.at >= c.policy.period) {
		c.at = now - (epoch+now)%c.policy.period
		c.spent = 0
	}
}

// waitWindow is the nanoseconds until the settled window c ends.
func waitWindow(c *counter, now int64) int64 {
	return c.at + c.policy.period - now
}
