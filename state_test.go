package sluice

import (
	"context"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unused is the name of a middleware that has no counters yet.
func unused(t *testing.T) string {
	return t.Name() + strconv.FormatInt(time.Now().UnixNano(), 10)
}

// tableOf is a limit's new table.
func tableOf(p *policy, maxKeys int64) *table {
	t := &table{}
	renumber(t, numbersOf(p, maxKeys))
	return t
}

func numbersOf(p *policy, maxKeys int64) *numbers {
	return &numbers{policy: p, maxKeys: maxKeys, life: p.full}
}

// chargeOf is a charge of cost tokens to a key of a table.
func chargeOf(t *table, key string, cost int64) *charge {
	return &charge{limit: &limit{table: t, logging: &logging{off: true}}, key: key, cost: cost}
}

// passes sends one request and says whether it is allowed.
func passes(t *table, key string, cost, now int64) bool {
	return chargeAll([]*charge{chargeOf(t, key, cost)}, now) == nil
}

// TestForgettingChangesNothing: a table decides as one does that never forgets, and does forget.
func TestForgettingChangesNothing(t *testing.T) {
	random := rand.New(rand.NewSource(10))
	forgot := 0
	for run := 0; run < 100; run++ {
		p := randomPolicy(random)
		tab, all := tableOf(p, 1000), map[string]*counter{}
		now := random.Int63n(1 << 40)
		passes(tab, "first", 0, now) // it reads the wall clock
		pace := p.full
		if pace < turnAtLeast {
			pace = turnAtLeast
		}
		for i := 0; i < 300; i++ {
			switch random.Intn(20) {
			case 0:
				now += random.Int63n(2 * pace)
			case 1:
				fadeTable(tab, now)
			default:
				now += random.Int63n(pace / 20)
			}
			key, cost := strconv.Itoa(random.Intn(20)), 1+random.Int63n(p.size)
			if all[key] == nil {
				all[key] = &counter{at: now, policy: p}
			}
			want := try(all[key], cost*p.token, now, tab.epoch)
			require.Equal(t, want, passes(tab, key, cost, now), "run %d, request %d of %+v", run, i, p)
		}
		forgot += len(all) - held(tab)
		require.Zero(t, tab.dropped)
	}
	require.Greater(t, forgot, 100, "the test must see something forgotten")
}

func TestMaxKeysIsABound(t *testing.T) {
	const maxKeys = 50
	for _, p := range []*policy{bucket(t, "1", time.Second, 5, false), bucket(t, "1", time.Second, 5, true), newWindow(5, int64(time.Minute), false)} {
		tab := tableOf(p, maxKeys)
		for i := int64(0); i < 2000; i++ {
			now := i * second / 10 // three lives
			require.True(t, passes(tab, strconv.FormatInt(i, 10), 1, now), "a new key finds room")
			require.LessOrEqual(t, held(tab), maxKeys)
			if i == 500 {
				renumber(tab, numbersOf(bucket(t, "1", time.Second, 6, false), maxKeys))
			}
		}
	}
}

// TestFloodFreesNoHeavySpender: when a table is full, it forgets those who spent little.
func TestFloodFreesNoHeavySpender(t *testing.T) {
	for name, p := range map[string]*policy{
		"smooth":   bucket(t, "1", time.Second, 100, false),
		"interval": bucket(t, "1", time.Second, 100, true),
	} {
		tab := tableOf(p, 200)
		require.True(t, passes(tab, "heavy", 100, 0), name)
		for i := int64(0); i < 5000; i++ {
			passes(tab, "flood "+strconv.FormatInt(i, 10), 1, i*second/5000)
		}
		require.False(t, passes(tab, "heavy", 2, second), "%s: the flood freed it", name)
		require.EqualValues(t, 4801, tab.dropped, "%s: those of the flood were dropped too early", name)
	}
}

// TestFullTableForgetsWhatIsDoneFirst: a counter that says as much as none costs nobody anything.
func TestFullTableForgetsWhatIsDoneFirst(t *testing.T) {
	tab := tableOf(bucket(t, "1", time.Second, 5, false), 4) // fewer than a sample, so that the choice is certain
	for _, key := range []string{"a", "b", "c"} {
		passes(tab, key, 5, 10*second)
	}
	passes(tab, "done", 1, 0)
	passes(tab, "new", 5, 10*second)
	require.Zero(t, tab.dropped)
	require.NotContains(t, tab.live, "done")
	require.Len(t, tab.live, 4)
}

// TestRenumberKeepsCounters, those that are asked for between two changes and those that are not, however many
// changes there are.
func TestRenumberKeepsCounters(t *testing.T) {
	random := rand.New(rand.NewSource(11))
	const keys = 10
	window := func(i int64) *numbers { return numbersOf(newWindow(1000+i, int64(time.Hour), false), 100) }
	tab := &table{}
	var counts [keys]int64
	for i := int64(0); i < 50; i++ {
		renumber(tab, window(i))
		renumber(tab, window(i)) // the same numbers again
		for j := 0; j < 3; j++ {
			k := random.Intn(keys)
			require.True(t, passes(tab, strconv.Itoa(k), 1, i))
			counts[k]++
		}
		require.LessOrEqual(t, len(tab.idle), maxIdle)
	}
	for k, count := range counts {
		ch := chargeOf(tab, strconv.Itoa(k), 0)
		require.Nil(t, chargeAll([]*charge{ch}, 100))
		require.Equal(t, 1049-count, ch.left, "key %d", k)
	}
	require.Equal(t, keys, held(tab))
}

func TestOverridesReachTheirKeys(t *testing.T) {
	p := newWindow(1, int64(time.Hour), false)
	n := numbersOf(p, 100)
	n.overrides = map[string]*policy{"gold": newWindow(3, int64(time.Hour), false)}
	tab := tableOf(p, 100)
	require.True(t, passes(tab, "gold", 1, 0))
	renumber(tab, n)
	require.True(t, passes(tab, "gold", 2, 0), "the override holds for a counter from before it, which keeps its count")
	require.False(t, passes(tab, "gold", 1, 0))
	require.True(t, passes(tab, "other", 1, 0))
	require.False(t, passes(tab, "other", 1, 0))
}

// TestOverridesLiveAsLongAsTheyCount: a key whose window is longer than the limit's is not forgotten before.
func TestOverridesLiveAsLongAsTheyCount(t *testing.T) {
	r, err := compile(&Config{Limits: []LimitConfig{{Requests: "5", Window: "1m", Overrides: []OverrideConfig{{Key: []string{"192.0.2.1"}, Window: "24h"}}}}}, unused(t))
	require.NoError(t, err)
	tab := r.limits[0].table
	now := int64(time.Since(start))
	require.True(t, passes(tab, "192.0.2.1", 5, now))
	for minute := int64(1); minute < 24*60; minute += 10 {
		require.True(t, passes(tab, strconv.FormatInt(minute, 10), 1, now+minute*60*second))
	}
	require.False(t, passes(tab, "192.0.2.1", 1, now+23*3600*second))
}

func TestFadeEmptiesIdleTables(t *testing.T) {
	p := newWindow(3, int64(time.Hour), false)
	tab := tableOf(p, 100)
	fadeTable(tab, 0) // one that was never asked
	passes(tab, "a", 1, 0)
	const hour = int64(time.Hour)
	for _, now := range []int64{1, hour - 1} {
		fadeTable(tab, now)
		require.Len(t, tab.live, 1, "nothing is over yet")
	}
	fadeTable(tab, hour)
	require.Equal(t, 1, held(tab), "left alone for how long? That is not known yet")
	fadeTable(tab, 2*hour)
	require.Zero(t, held(tab))
	require.Nil(t, tab.live)
	require.Nil(t, tab.idle)
	require.Nil(t, tab.peers)
	require.Nil(t, tab.resets)
	require.True(t, passes(tab, "a", 3, 3*hour), "and it can be used again")
}

// TestKeysAreCloned: a key that is a piece of a request must not keep the whole of it in memory.
func TestKeysAreCloned(t *testing.T) {
	before := heap()
	tab := tableOf(newWindow(1, int64(time.Hour), false), 1000)
	for i := 0; i < 64; i++ {
		large := strings.Repeat(strconv.Itoa(i%10), 1<<20) + strconv.Itoa(i)
		passes(tab, large[len(large)-10:], 1, 0)
	}
	require.Less(t, heap()-before, int64(8<<20))
	runtime.KeepAlive(tab)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peerHandler is a handler of the shortest way, through the cache by peer, and its table.
func peerHandler(t *testing.T, config *Config) (http.Handler, *table) {
	t.Helper()
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h, err := New(context.Background(), next, config, unused(t))
	require.NoError(t, err)
	short, ok := h.(*bucketByPeer)
	require.True(t, ok)
	return h, short.table
}

func statusFor(h http.Handler, peer string) int {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = peer
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, req)
	return recorder.Code
}

// TestPeersAreLive: whatever happens to a table, the cache has only counters that are live, or are known to be
// forgotten.
func TestPeersAreLive(t *testing.T) {
	random := rand.New(rand.NewSource(12))
	h, tab := peerHandler(t, &Config{Average: "1", Period: "1h", Burst: "2", MaxKeys: "5"})
	for i := 0; i < 3000; i++ {
		host := "192.0.2." + strconv.Itoa(random.Intn(8))
		statusFor(h, host+":"+strconv.Itoa(random.Intn(3)))
		switch random.Intn(20) {
		case 0:
			tab.turned -= 3 * int64(time.Hour) // time passes
			fadeTable(tab, int64(time.Since(start)))
		case 1:
			n := *tab.numbers
			n.maxKeys = 3 + random.Int63n(5)
			renumber(tab, &n)
		}
		for peer, c := range tab.peers {
			host, _, _ := strings.Cut(peer, ":")
			require.True(t, c == tab.live[host] || c.policy == forgotten, "request %d: %s has a counter that is not its own", i, peer)
		}
	}
}

func TestSmallCachesAreBounded(t *testing.T) {
	h, tab := peerHandler(t, &Config{Average: "1000", Burst: "1000"})
	for i := 0; i < maxPeers+10; i++ {
		statusFor(h, "192.0.2.1:"+strconv.Itoa(i))
		require.LessOrEqual(t, len(tab.peers), maxPeers)
	}
	for i := int64(0); i < maxResets+10; i++ {
		resetHeader(tab, i*second)
		require.LessOrEqual(t, len(tab.resets), maxResets)
	}
}

// TestResetHeaderIsRoundedUp: a moment in Unix seconds, never early, and late by no more than rounding and reading
// two clocks explain.
func TestResetHeaderIsRoundedUp(t *testing.T) {
	tab := tableOf(newWindow(1, int64(time.Hour), false), 10)
	random := rand.New(rand.NewSource(13))
	for i := 0; i < 500; i++ {
		moment := int64(time.Since(start)) + random.Int63n(100*second)
		header := resetHeader(tab, moment)
		require.Len(t, header, 1)
		unix, err := strconv.ParseInt(header[0], 10, 64)
		require.NoError(t, err)
		wall := start.Add(time.Duration(moment))
		require.False(t, time.Unix(unix, 0).Before(wall.Add(-time.Millisecond)), "early")
		require.Less(t, time.Unix(unix, 0).Sub(wall), 2*time.Second, "late")
		require.Equal(t, header, resetHeader(tab, moment), "the same again")
	}
}

// TestTheSameOptionsAreCompiledOnce: New runs for every router at every reload of anything.
func TestTheSameOptionsAreCompiledOnce(t *testing.T) {
	name := unused(t)
	one, err := rulesFor(name, &Config{Average: "1"})
	require.NoError(t, err)
	same, err := rulesFor(name, &Config{Average: "1"})
	require.NoError(t, err)
	require.Same(t, one, same)
	other, err := rulesFor(name, &Config{Average: "2"})
	require.NoError(t, err)
	require.NotSame(t, one, other)
	require.Same(t, one.limits[0].table, other.limits[0].table)
}

// BenchmarkMemoryPerKey reports what a key costs, with an IPv4 address as the key.
func BenchmarkMemoryPerKey(b *testing.B) {
	const keys = 100_000
	for n := 0; n < b.N; n++ {
		before := heap()
		tab := tableOf(newWindow(1, int64(time.Hour), false), keys)
		for i := 0; i < keys; i++ {
			passes(tab, "198."+strconv.Itoa(i>>16&255)+"."+strconv.Itoa(i>>8&255)+"."+strconv.Itoa(i&255), 1, 0)
		}
		b.ReportMetric(float64(heap()-before)/keys, "B/key")
		runtime.KeepAlive(tab)
	}
}
