package sluice

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The option redis into sharing. As config.go, this runs in New only.

// RedisConfig is where counters are kept that several gateways share.
type RedisConfig struct {
	// Endpoints is host:port of the primary, or of several servers among which the one that takes writes is found.
	// Default 127.0.0.1:6379.
	Endpoints []string `json:"endpoints,omitempty"`
	// TLS is how to encrypt connections. Without it they are plain.
	TLS *RedisTLSConfig `json:"tls,omitempty"`
	// Username is that of an access control list; without it Password is the server's.
	Username string `json:"username,omitempty"`
	// Password is the password, PasswordFile a file that has it, PasswordEnv the name of an environment variable: one
	// of them at most.
	Password     string `json:"password,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
	PasswordEnv  string `json:"passwordEnv,omitempty"`
	// DB is the database's number. Default 0, the only one in a cluster.
	DB string `json:"db,omitempty"`

	// Prefix begins the counters' keys. Gateways that share counters have the same. Default sluice.
	Prefix string `json:"prefix,omitempty"`
	// HashKey is a secret that is hashed together with secret keys, such as a header's value: without it, who can
	// read the store can find out values that are easy to guess. Gateways that share counters have the same.
	HashKey string `json:"hashKey,omitempty"`

	// Mode is strict (every request asks the store, the default) or async (gateways decide alone and exchange what
	// they counted).
	Mode string `json:"mode,omitempty"`
	// SyncInterval is how long after a request all others have heard of it, in mode async. Default 200ms.
	SyncInterval string `json:"syncInterval,omitempty"`
	// OnFailure is what becomes of requests while the store is away: local (each gateway goes on alone, the default),
	// allow or deny (503).
	OnFailure string `json:"onFailure,omitempty"`

	// Timeout is how long a request waits for the store at most. Default 50ms.
	Timeout string `json:"timeout,omitempty"`
	// DialTimeout is how long connecting to one endpoint may take; no request waits for it longer than Timeout.
	// Default 2s.
	DialTimeout string `json:"dialTimeout,omitempty"`
	// PoolSize is the most connections that a middleware opens; requests that find none idle ride together. Default
	// 4.
	PoolSize string `json:"poolSize,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// RedisTLSConfig is as Traefik's own. CA, Cert and Key are PEM, or files that have it.
type RedisTLSConfig struct {
	// CA is who signed the server's certificate. Default: the authorities that the system trusts.
	CA string `json:"ca,omitempty"`
	// Cert and Key are our own certificate.
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
	// InsecureSkipVerify takes any server for the right one.
	InsecureSkipVerify string `json:"insecureSkipVerify,omitempty"`

	Unknown map[string]any `json:"-" mapstructure:",remain"`
}

// maxPoolSize bounds the connections of a middleware.
const maxPoolSize = 1000

// compileRedis turns the option redis of the middleware of this name into a sharing without limits and connections.
func compileRedis(c *RedisConfig, name string) (s *sharing, err error) {
	s = &sharing{config: c, ledger: &ledger{owed: map[string]*debt{}}}
	if s.server, err = compileServer(c); err != nil {
		return nil, err
	}
	if s.async, err = choice("redis.mode", c.Mode, "strict", "async"); err != nil {
		return nil, err
	}
	if s.interval, err = duration("redis.syncInterval", orDefault(c.SyncInterval, "200ms")); err != nil {
		return nil, err
	}
	// What one gateway lets pass is with the store after half an interval, and with another gateway after another
	// half.
	s.ledger.pause = s.interval / 2
	switch strings.TrimSpace(c.OnFailure) {
	case "", "local":
		s.onFailure = failLocal
	case "allow":
		s.onFailure = failAllow
	case "deny":
		s.onFailure = failDeny
	default:
		return nil, bad("redis.onFailure", c.OnFailure, "is none of local, allow and deny", "local, allow or deny")
	}
	if s.async && s.onFailure != failLocal {
		return nil, bad("redis.onFailure", c.OnFailure, "is for mode strict: in mode async a gateway always decides alone", "local, or mode: strict")
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		return nil, bad("redis.prefix", c.Prefix, "has braces, which say where a cluster keeps a key", "a prefix without them, such as sluice")
	}
	// All keys of a middleware are in one hash slot of a cluster, so that one script may use them.
	s.prefix = orDefault(c.Prefix, "sluice") + ":{" + hashTag(name) + "}:"
	s.server.probe = s.prefix + "probe"
	s.salt = c.HashKey + " " + s.prefix
	return s, nil
}

// hashTag is a middleware's name as it stands between braces: not empty, without any of its own.
func hashTag(name string) string {
	return strings.NewReplacer("{", "%7B", "}", "%7D", "%", "%25").Replace(orDefault(name, "%"))
}

// compileServer reads where the store is and how to get in.
func compileServer(c *RedisConfig) (*server, error) {
	s := &server{username: c.Username, endpoints: list(c.Endpoints)}
	if len(s.endpoints) == 0 {
		s.endpoints = []string{"127.0.0.1:6379"}
	}
	for _, endpoint := range s.endpoints {
		host, port, err := net.SplitHostPort(endpoint)
		if n, _ := strconv.Atoi(port); err != nil || host == "" || n < 1 || n > 65535 {
			return nil, bad("redis.endpoints", endpoint, "is not host:port", "such as redis:6379, without a scheme")
		}
	}
	var err error
	if s.password, err = redisPassword(c); err != nil {
		return nil, err
	}
	if s.username != "" && s.password == "" {
		return nil, bad("redis.username", c.Username, "has no password", "password, passwordFile or passwordEnv beside it")
	}
	db, err := wholeOrZero("redis.db", orDefault(c.DB, "0"), "0")
	if err != nil {
		return nil, err
	}
	s.db = strconv.FormatInt(db, 10)
	if s.secure, err = redisTLS(c.TLS); err != nil {
		return nil, err
	}
	if s.timeout, err = duration("redis.timeout", orDefault(c.Timeout, "50ms")); err != nil {
		return nil, err
	}
	if s.dialTimeout, err = duration("redis.dialTimeout", orDefault(c.DialTimeout, "2s")); err != nil {
		return nil, err
	}
	size, err := whole("redis.poolSize", orDefault(c.PoolSize, "4"), "4")
	if err == nil && size > maxPoolSize {
		err = bad("redis.poolSize", c.PoolSize, "is more than "+strconv.Itoa(maxPoolSize), "the most connections to open, such as 4")
	}
	s.poolSize = int(size)
	return s, err
}

// redisPassword finds the password. It is never part of an error.
func redisPassword(c *RedisConfig) (string, error) {
	given := 0
	for _, option := range []string{c.Password, c.PasswordFile, c.PasswordEnv} {
		if option != "" {
			given++
		}
	}
	switch {
	case given > 1:
		return "", errors.New("sluice: redis has several of password, passwordFile and passwordEnv; keep one")
	case strings.HasPrefix(c.Password, "urn:k8s:secret:"):
		return "", errors.New("sluice: redis.password is the name of a Kubernetes secret, which only Traefik's Kubernetes providers look up; write passwordFile or passwordEnv")
	case c.PasswordFile != "":
		content, err := os.ReadFile(c.PasswordFile)
		if err != nil {
			return "", bad("redis.passwordFile", c.PasswordFile, "cannot be read ("+err.Error()+")", "a file that Traefik may read")
		}
		return strings.TrimRight(string(content), "\r\n"), nil
	case c.PasswordEnv != "":
		password := os.Getenv(c.PasswordEnv)
		if password == "" {
			return "", bad("redis.passwordEnv", c.PasswordEnv, "is not set", "the name of a variable in Traefik's environment")
		}
		return password, nil
	}
	return c.Password, nil
}

// redisTLS is nil without the option.
func redisTLS(c *RedisTLSConfig) (*tls.Config, error) {
	if c == nil {
		return nil, nil
	}
	skip, err := boolean("redis.tls.insecureSkipVerify", c.InsecureSkipVerify, false)
	if err != nil {
		return nil, err
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skip}
	if c.CA != "" {
		ca, err := pemOf("redis.tls.ca", c.CA)
		if err != nil {
			return nil, err
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("sluice: redis.tls.ca has no certificate; write PEM, or the name of a file that has it")
		}
	}
	if c.Cert == "" && c.Key == "" {
		return secure, nil
	}
	if c.Cert == "" || c.Key == "" {
		return nil, errors.New("sluice: redis.tls has only one of cert and key; write both or none")
	}
	cert, err := pemOf("redis.tls.cert", c.Cert)
	if err != nil {
		return nil, err
	}
	key, err := pemOf("redis.tls.key", c.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("sluice: redis.tls.cert and redis.tls.key do not make a pair (%w); write PEM, or the names of files that have it", err)
	}
	secure.Certificates = []tls.Certificate{pair}
	return secure, nil
}

// pemOf is an option's value, or what the file of that name has.
func pemOf(path, value string) ([]byte, error) {
	if strings.Contains(value, "-----BEGIN ") {
		return []byte(value), nil
	}
	content, err := os.ReadFile(value)
	if err != nil {
		return nil, bad(path, value, "is neither PEM nor a file that can be read ("+err.Error()+")", "PEM, or the name of a file that has it")
	}
	return content, nil
}

// shareLimits gives a sharing its limits, and connections: those that the middleware had before, unless they are to
// another store. The error is the first limit that cannot be shared.
func shareLimits(s *sharing, limits []*limit, name string) error {
	s.prefixes = map[*limit]string{}
	s.numbers = map[*policy]string{}
	s.ledger.life = turnAtLeast
	if len(limits) > maxScriptKeys {
		return fmt.Errorf("sluice: redis can share %d limits of a middleware at most; write another middleware for the rest", maxScriptKeys)
	}
	for _, l := range limits {
		// As in process, a limit that counts other keys, or by the other algorithm, is another limit.
		sum := sha256.Sum256([]byte(fmt.Sprintf("%v %v", l.parts, isWindow(l.numbers.policy))))
		s.prefixes[l] = s.prefix + l.name + ":" + hex.EncodeToString(sum[:4]) + ":"
		policies := []*policy{l.numbers.policy}
		for _, p := range l.numbers.overrides {
			policies = append(policies, p)
		}
		for _, p := range policies {
			if p.kind == unlimited {
				continue
			}
			if problem := unsharable(s, p); problem != "" {
				return fmt.Errorf("sluice: the limit %s cannot be shared through redis: it %s", l.name, problem)
			}
			s.numbers[p] = policyNumbers(p, p.token, dryOption(l))
			if s.ledger.life < p.full {
				s.ledger.life = p.full
			}
		}
	}
	s.pool = poolFor(name, s)
	return nil
}

// unsharable says what keeps a limit from being shared, "" if nothing does.
func unsharable(s *sharing, p *policy) string {
	if s.async && p.kind != smoothBucket && p.period < s.interval {
		return "has a window or period shorter than redis.syncInterval, so that it is over before the others hear of it; write mode: strict"
	}
	return sharable(p)
}

// pools has each middleware's connections. They outlive reloads.
var pools struct {
	mu     sync.Mutex
	byName map[string]*pool
	config map[string]*RedisConfig
}

// poolFor returns the connections of a middleware, and begins to connect if there are none. Those to another store
// than before are left to closeUnused.
func poolFor(name string, s *sharing) *pool {
	pools.mu.Lock()
	defer pools.mu.Unlock()
	if pools.byName == nil {
		pools.byName = map[string]*pool{}
		pools.config = map[string]*RedisConfig{}
	}
	if p := pools.byName[name]; p != nil && reflect.DeepEqual(pools.config[name], s.config) {
		return p
	}
	p := newPool(name, s.server)
	pools.byName[name] = p
	pools.config[name] = s.config
	return p
}

// newPool returns a pool that is about to have its first connection.
func newPool(name string, s *server) *pool {
	p := &pool{name: name, server: s, dialing: 1, asked: int64(time.Since(start))}
	p.timer = time.AfterFunc(idleFor, func() { closeUnused(p) })
	go connect(p, 0)
	return p
}
