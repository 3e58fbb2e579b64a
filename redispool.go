package sluice

import (
	"crypto/tls"
	"log"
	"math/rand"
	"sync"
	"time"
)

// The connections to a shared store, and whether there is one.
//
// A request never dials. It takes an idle connection, or waits for one, at most until its deadline, while another
// goroutine connects; and while the pool is down it gets none at once. So what a request pays for a dead server is
// its deadline, once, whatever dialling and TLS cost and however many addresses there are to try.
//
// Connecting means finding, among the endpoints and wherever a cluster points, a server that proves that it takes
// writes. The pool goes down when that fails, or when a request was not answered in time; then it looks for such a
// server again and again, at jittered and growing distances so that many gateways do not all come back at once. One
// line in the log says when it goes down, one when it is up.

const (
	// firstPause and longestPause bound the time between two searches for a server, before jitter.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// idleFor is how long a pool that no request asks keeps its connections, and goes on searching.
	idleFor = 5 * time.Minute
	// maxMoves bounds how often a search follows "MOVED".
	maxMoves = 4
)

// server is the options of a shared store.
type server struct {
	endpoints          []string // host:port, the preferred one first
	secure             *tls.Config
	username, password string
	db                 string
	probe              string // a key to prove with that a server takes writes
	timeout            int64  // nanoseconds that a request waits at most
	dialTimeout        int64  // nanoseconds that one endpoint has to let us in
	poolSize           int
}

// pool is the connections to a shared store. What follows mu is guarded by it.
type pool struct {
	name   string // of the middleware, for the log
	server *server

	mu         sync.Mutex
	owing      bool        // the store is yet to be told of something, see payFirst
	idle       []*respConn // the last one used last
	open       int         // connections of this generation, idle or not
	dialing    int
	generation int // goes up when what is connected should be connected no more
	waiters    []*waiter
	riders     []*rider      // see board
	preferred  int           // the endpoint to try first
	down       bool          // no connections are handed out
	searching  bool          // while down: a search is due
	pause      time.Duration // before the next search
	asked      int64         // when a request last wanted a connection
	timer      *time.Timer
}

// waiter is a request that waits for a connection.
type waiter struct {
	ready chan *respConn // gets one, or nil
}

// acquire returns a connection, which goes back by release or discard; nil if none is to be had until deadline.
func acquire(p *pool, deadline int64) *respConn {
	now := int64(time.Since(start))
	p.mu.Lock()
	p.asked = now
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		return c
	}
	if p.down || deadline <= now {
		if p.down && !p.searching {
			searchLater(p)
		}
		p.mu.Unlock()
		return nil
	}
	return await(p, deadline-now)
}

// await is the rare half of acquire: no connection is idle. p is locked, and unlocked afterwards.
func await(p *pool, timeout int64) *respConn {
	w := &waiter{ready: make(chan *respConn, 1)}
	p.waiters = append(p.waiters, w)
	if p.open+p.dialing < p.server.poolSize {
		p.dialing++
		go connect(p, p.generation)
	}
	if p.timer == nil {
		p.timer = time.AfterFunc(idleFor, func() { closeUnused(p) })
	}
	p.mu.Unlock()
	timer := time.AfterFunc(time.Duration(timeout), func() { giveUp(p, w) })
	c := <-w.ready
	timer.Stop()
	return c
}

// giveUp ends a waiter's wait. If there is no connection at all that it could have got, there is no server.
func giveUp(p *pool, w *waiter) {
	p.mu.Lock()
	for i, other := range p.waiters {
		if other == w {
			p.waiters = append(p.waiters[:i], p.waiters[i+1:]...)
			w.ready <- nil
			if p.open == 0 {
				goDown(p, "no connection in time")
			}
			break
		}
	}
	p.mu.Unlock()
}

// release gives back a connection that works, to the request that has waited longest.
func release(p *pool, c *respConn) {
	p.mu.Lock()
	if c.generation != p.generation {
		p.mu.Unlock()
		_ = c.net.Close()
		return
	}
	handOver(p, c)
	p.mu.Unlock()
}

// handOver gives a connection of the locked p to a waiter or a rider, or keeps it.
func handOver(p *pool, c *respConn) {
	switch {
	case len(p.waiters) > 0:
		p.waiters[0].ready <- c
		p.waiters = p.waiters[1:]
	case len(p.riders) > 0:
		p.riders[0].ready <- c
		p.riders = p.riders[1:]
	default:
		p.idle = append(p.idle, c)
	}
}

// discard gives back a connection on which something went wrong, which as a rule is wrong with all of them: a server
// that closed one, or says that it is no longer the primary. What is idle is closed, too, and connected anew.
// elsewhere says to look for another server first.
func discard(p *pool, c *respConn, elsewhere bool) {
	_ = c.net.Close()
	p.mu.Lock()
	if c.generation == p.generation {
		disconnect(p)
		if elsewhere {
			p.preferred++
		}
	}
	p.mu.Unlock()
}

// disconnect closes the locked p's idle connections; those in use are closed when they come back. Whoever waits still
// does, for a new one.
func disconnect(p *pool) {
	p.generation++
	p.open = 0
	for _, c := range p.idle {
		_ = c.net.Close()
	}
	p.idle = nil
	for _, w := range p.riders {
		w.ready <- nil
	}
	p.riders = nil
	connectAgain(p)
}

// fail takes down a pool whose server did not do what a request asked.
func fail(p *pool, c *respConn, reason string) {
	_ = c.net.Close()
	p.mu.Lock()
	if c.generation == p.generation {
		goDown(p, reason)
	}
	p.mu.Unlock()
}

// goDown takes down the locked p: nobody gets or waits for a connection until a search has found a server.
func goDown(p *pool, reason string) {
	if p.down {
		return
	}
	p.down, p.pause = true, firstPause
	disconnect(p) // which begins the search
	for _, w := range p.waiters {
		w.ready <- nil
	}
	p.waiters = nil
	log.Printf("sluice: %s: redis cannot be used, onFailure applies: %.300q", p.name, reason)
}

// searchLater has the locked p search for a server after a pause: half of it at least, three halves at most.
func searchLater(p *pool) {
	if p.searching {
		return
	}
	p.searching = true
	pause := p.pause/2 + time.Duration(rand.Int63n(int64(p.pause)))
	if p.pause *= 2; p.pause > longestPause {
		p.pause = longestPause
	}
	time.AfterFunc(pause, func() { search(p) })
}

// search looks for a server while p is down. Nobody searches for a pool that is not asked any more; should it be
// asked again, acquire begins anew.
func search(p *pool) {
	p.mu.Lock()
	p.searching = false
	if !p.down || int64(time.Since(start))-p.asked > int64(idleFor) {
		p.mu.Unlock()
		return
	}
	generation := p.generation
	p.dialing++
	p.mu.Unlock()
	connect(p, generation)
}

// connect opens one connection and hands it over; or takes p down, or leaves it there, when that fails.
func connect(p *pool, generation int) {
	c, reason := find(p)
	p.mu.Lock()
	p.dialing--
	switch {
	case c == nil && p.down:
		searchLater(p)
	case c == nil && p.open == 0 && generation == p.generation:
		goDown(p, reason)
	case c == nil:
		// There are others: this server does not want more of them.
	case generation != p.generation:
		// It may be connected to what the pool has turned away from.
		_ = c.net.Close()
		connectAgain(p)
	default:
		comeUp(p)
		c.generation = generation
		p.open++
		handOver(p, c)
	}
	p.mu.Unlock()
}

// connectAgain has the locked p connect if somebody waits for that.
func connectAgain(p *pool) {
	switch {
	case p.down:
		searchLater(p)
	case len(p.waiters) > 0 && p.dialing < p.server.poolSize:
		p.dialing++
		go connect(p, p.generation)
	}
}

// comeUp ends the locked p's being down.
func comeUp(p *pool) {
	if !p.down {
		return
	}
	p.down = false
	log.Printf("sluice: %s: redis can be used again", p.name)
}

// find returns a connection to a server that takes writes, or nil and why the last one that was tried is not it.
func find(p *pool) (*respConn, string) {
	p.mu.Lock()
	first := p.preferred
	p.mu.Unlock()
	reason := ""
	for i := range p.server.endpoints {
		at := (first + i) % len(p.server.endpoints)
		c, problem := enter(p.server, p.server.endpoints[at])
		if c != nil {
			p.mu.Lock()
			p.preferred = at
			p.mu.Unlock()
			return c, ""
		}
		reason = problem
	}
	return nil, reason
}

// enter connects to the server at address, or to the one that a cluster's node sends us on to.
func enter(s *server, address string) (*respConn, string) {
	reason := ""
	for moves := 0; moves < maxMoves && address != ""; moves++ {
		deadline := int64(time.Since(start)) + s.dialTimeout
		c, err := dial(address, s.secure, deadline)
		if err != nil {
			return nil, err.Error()
		}
		err = greet(c, s.username, s.password, s.db, s.probe, deadline)
		if err == nil {
			return c, ""
		}
		_ = c.net.Close()
		reason = address + ": " + err.Error()
		address = movedTo(err.Error(), address)
	}
	return nil, reason
}

// closeUnused closes the connections of a pool that no request has asked for a while, and looks again later while
// there are any.
func closeUnused(p *pool) {
	p.mu.Lock()
	p.timer = nil
	if int64(time.Since(start))-p.asked > int64(idleFor) {
		disconnect(p)
	} else {
		p.timer = time.AfterFunc(idleFor, func() { closeUnused(p) })
	}
	p.mu.Unlock()
}
