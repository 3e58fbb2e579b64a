package sluice_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What must hold however many ask at once, and while Traefik builds new handlers.

// together runs do in so many goroutines and waits for them; a deadlock fails the test.
func together(t *testing.T, callers int, do func(caller int)) {
	t.Helper()
	done := make(chan struct{})
	var all sync.WaitGroup
	for i := 0; i < callers; i++ {
		all.Add(1)
		go func(caller int) {
			defer all.Done()
			do(caller)
		}(i)
	}
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		stacks := make([]byte, 1<<16)
		require.Fail(t, "they block each other", "%s", stacks[:runtime.Stack(stacks, true)])
	}
}

// allowed says whether a request from a peer passes.
func allowed(h http.Handler, peer string) bool {
	return send(h, request(peer)).StatusCode == http.StatusOK
}

// TestExactlyN: 64 callers at once on a key that nobody has asked for get exactly what there is.
func TestExactlyN(t *testing.T) {
	const n = 100
	for name, o := range map[string]options{
		"bucket":          {"average": n, "period": "24h"},
		"interval bucket": {"limits": []any{options{"average": n, "period": "24h", "refill": "interval"}}},
		"window":          {"limits": []any{options{"requests": n, "window": "24h"}}},
		"two limits": {"limits": []any{
			options{"requests": n, "window": "24h", "key": "global"}, options{"average": n, "period": "24h"}}},
	} {
		h := limited(t, o)
		var passed atomic.Int64
		together(t, 64, func(caller int) {
			for i := 0; i < 8; i++ {
				if allowed(h, "192.0.2.7:"+strconv.Itoa(1000+caller)) {
					passed.Add(1)
				}
			}
		})
		require.Equal(t, int64(n), passed.Load(), name)
	}
}

// TestReloadMovesLimits: old and new handlers, which have the same limits in another order, neither block each other
// nor allow more together.
func TestReloadMovesLimits(t *testing.T) {
	limit := func(name, key string, requests int) options {
		return options{"name": name, "requests": requests, "window": "24h", "key": key}
	}
	a, b, c := limit("a", "ip", 40), limit("b", "host", 100), limit("c", "global", 100)
	middleware := fresh(t)
	var handlers []http.Handler
	for _, order := range [][]any{{a, b, c}, {c, b, a}, {b, c, a}, {c, a, b}} {
		handlers = append(handlers, named(t, options{"limits": order}, middleware))
	}
	var passed [2]atomic.Int64
	together(t, 32, func(caller int) {
		for i := 0; i < 30; i++ {
			who := (caller + i) % 2
			if allowed(handlers[(caller+i/2)%len(handlers)], []string{alice, bob}[who]) {
				passed[who].Add(1)
			}
		}
	})
	require.Equal(t, int64(40), passed[0].Load())
	require.Equal(t, int64(40), passed[1].Load())
}

// TestReloadsUnderLoad: while handlers are built, for a limit that grows, none of what was counted is lost, and
// nothing is counted twice.
func TestReloadsUnderLoad(t *testing.T) {
	const reloads = 50
	middleware := fresh(t)
	var current atomic.Pointer[http.Handler]
	reload := func(requests int) {
		h, err := build(quiet(options{"limits": []any{options{"requests": requests, "window": "24h"}}}), service, middleware)
		if err != nil {
			t.Error(err)
		}
		current.Store(&h)
	}
	reload(100)
	var passed atomic.Int64
	together(t, 16, func(caller int) {
		for i := 1; i <= reloads; i++ {
			if caller == 0 {
				reload(100 + i)
			} else if allowed(*current.Load(), fmt.Sprintf("192.0.2.1:%d", caller)) {
				passed.Add(1)
			}
		}
	})
	for allowed(*current.Load(), alice) {
		passed.Add(1)
	}
	require.Equal(t, int64(100+reloads), passed.Load())
}

// TestReloadsLeaveNothing: Traefik calls New for every router at every change of anything, and nobody ends what a
// handler leaves running.
func TestReloadsLeaveNothing(t *testing.T) {
	middleware := fresh(t)
	reload := func(i int) {
		allowed(named(t, options{"average": 10 + i%2, "period": "24h"}, middleware), alice)
	}
	reload(0)
	goroutines := runtime.NumGoroutine()
	for i := 0; i < 1000; i++ {
		reload(i)
	}
	// Those of tests before may still be ending. (require.Eventually would add one of its own.)
	for wait := 0; runtime.NumGoroutine() > goroutines && wait < 1000; wait++ {
		time.Sleep(10 * time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}
