package sluice

// The options below Config.

// LimitConfig is one limit: a token bucket (Average, Period, Burst, Refill) or a fixed window (Requests, Window,
// Align).
type LimitConfig struct {
	// Name is shown in headers, logs and errors; a-z, 0-9 and "-". Default limit-1, limit-2 and so on.
	Name string `json:"name,omitempty"`

	// Average is the tokens added per Period. A decimal number above 0.
	Average string `json:"average,omitempty"`
	// Period is a duration. Default 1s.
	Period string `json:"period,omitempty"`
	// Burst is how many tokens the bucket holds. Default Average rounded up.
	Burst string `json:"burst,omitempty"`
	// Refill is smooth (tokens come back one by one, the default) or interval (Average at once, every Period).
	Refill string `json:"refill,omitempty"`

	// Requests is how many requests a window allows.
	Requests string `json:"requests,omitempty"`
	// Window is the window's length, a duration.
	Window string `json:"window,omitempty"`
	// Align is first (a window opens at the key's first request, the default) or clock (UTC multiples of Window).
	Align string `json:"align,omitempty"`

	// Key is what makes one key: ip (the default), host, method, path, pattern, header:NAME, cookie:NAME, query:NAME,
	// basic, jwt:CLAIM, body:FIELD, global, or several of them. With "lower:" before it, a part is taken in lower
	// case.
	Key []string `json:"key,omitempty"`
	// OnMissingKey is what becomes of a request that lacks a part of Key: ip (it counts by address, the default),
	// skip, share or reject.
	OnMissingKey string `json:"onMissingKey,omitempty"`
	// Overrides is other numbers for some keys.
	Overrides []OverrideConfig `json:"overrides,omitempty"`

	// Match is which requests the limit is for. Default all.
	Match *MatchConfig `json:"match,omitempty"`
	// Cost is how many tokens a request takes. Default 1.
	Cost string `json:"cost,omitempty"`
	// Costs is the cost of some requests; the first that matches counts.
	Costs []CostConfig `json:"costs,omitempty"`
	// DryRun counts and reports, and refuses nothing.
	DryRun string `json:"dryRun,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// OverrideConfig is the numbers of a limit for one key. What is not set is as in the limit.
type OverrideConfig struct {
	// Key is the key's value; of several parts, one value each.
	Key       []string `json:"key,omitempty"`
	Average   string   `json:"average,omitempty"`
	Period    string   `json:"period,omitempty"`
	Burst     string   `json:"burst,omitempty"`
	Requests  string   `json:"requests,omitempty"`
	Window    string   `json:"window,omitempty"`
	Unlimited string   `json:"unlimited,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// CostConfig is the cost of the requests that match.
type CostConfig struct {
	Match *MatchConfig `json:"match,omitempty"`
	Cost  string       `json:"cost,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// MatchConfig is conditions on a request: all that are given must fit, and of one kind any.
type MatchConfig struct {
	Methods []string `json:"methods,omitempty"`
	// Hosts is host names; "*.example.com" is every host below example.com.
	Hosts []string `json:"hosts,omitempty"`
	// Paths is path patterns of net/http's ServeMux, such as /users/{id} or /files/.
	Paths []string `json:"paths,omitempty"`
	// Headers is header fields; without a value, any value fits.
	Headers []HeaderConfig `json:"headers,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// HeaderConfig is a header field.
type HeaderConfig struct {
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// ExemptConfig is the requests that no limit is for: those that fit any of it.
type ExemptConfig struct {
	IPs     []string       `json:"ips,omitempty"`
	Paths   []string       `json:"paths,omitempty"`
	Methods []string       `json:"methods,omitempty"`
	Headers []HeaderConfig `json:"headers,omitempty"`
	// Preflight is whether CORS preflight requests are exempt. Default true.
	Preflight string `json:"preflight,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// RejectConfig is what refusals look like. In Body and the values of Headers {limit}, {remaining}, {reset},
// {retryAfter} and {policy} are filled in.
type RejectConfig struct {
	// StatusCode is 400 to 599. Default 429.
	StatusCode  string         `json:"statusCode,omitempty"`
	ContentType string         `json:"contentType,omitempty"`
	Body        string         `json:"body,omitempty"`
	Headers     []HeaderConfig `json:"headers,omitempty"`
	// Jitter is a duration of whole seconds, up to which Retry-After is lengthened at random. Default none.
	Jitter string `json:"jitter,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// LogConfig is how refusals are reported in Traefik's log.
type LogConfig struct {
	// Level is debug (the default), error or none: the levels that a plugin has.
	Level string `json:"level,omitempty"`
	// Interval is the time between two lines about one limit. Default 1m.
	Interval string `json:"interval,omitempty"`
	// Each reports every refusal in a line of its own.
	Each string `json:"each,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// SourceCriterion is Traefik's option of this name: what the single limit of the short form counts by. At most one
// field may be set.
type SourceCriterion struct {
	IPStrategy        *IPStrategy `json:"ipStrategy,omitempty"`
	RequestHeaderName string      `json:"requestHeaderName,omitempty"`
	RequestHost       string      `json:"requestHost,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// IPStrategy says how to find the client's address, as Traefik's option of this name does.
type IPStrategy struct {
	// Depth is the position in X-Forwarded-For, counted from the right. 0 (the default) takes the peer's address.
	Depth string `json:"depth,omitempty"`
	// ExcludedIPs is addresses and CIDRs of trusted proxies: the client is the rightmost in X-Forwarded-For that is
	// none of them.
	ExcludedIPs []string `json:"excludedIPs,omitempty"`
	// IPv6Subnet is how many bits of an IPv6 address make one client. Default 64, since a subscriber gets a /64 or
	// more.
	IPv6Subnet string `json:"ipv6Subnet,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}
