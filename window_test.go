package sluice

import (
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFirstWindowRows(t *testing.T) {
	const s = time.Second
	runRows(t, newWindow(2, int64(10*s), false), 0, []request{
		{at: 1 * s, cost: 0, allowed: true, left: 2, reset: 0},      // nothing is charged, no window opens
		{at: 3 * s, cost: 1, allowed: true, left: 1, reset: 10 * s}, // opens
		{at: 9 * s, cost: 1, allowed: true, left: 0, reset: 4 * s},  // does not extend it
		{at: 10 * s, cost: 1, allowed: false, left: 0, reset: 3 * s, retry: 3 * s},
		{at: 13*s - 1, cost: 1, allowed: false, left: 0, reset: 1, retry: 1},
		{at: 13 * s, cost: 2, allowed: true, left: 0, reset: 10 * s}, // the next one opens at its own first request
		{at: 40 * s, cost: 0, allowed: true, left: 2, reset: 0},
	})
}

// TestClockWindowRows: at the clock's zero it is 00:00:07 UTC, so a window of ten seconds ends in three.
func TestClockWindowRows(t *testing.T) {
	const s = time.Second
	runRows(t, newWindow(2, int64(10*s), true), int64(7*s), []request{
		{at: 0, cost: 1, allowed: true, left: 1, reset: 3 * s},
		{at: 2 * s, cost: 2, allowed: false, left: 1, reset: 1 * s, retry: 1 * s},
		{at: 3*s - 1, cost: 1, allowed: true, left: 0, reset: 1},
		{at: 3 * s, cost: 1, allowed: true, left: 1, reset: 10 * s},
		{at: 12 * s, cost: 1, allowed: true, left: 0, reset: 1 * s},
		{at: 47 * s, cost: 1, allowed: true, left: 1, reset: 6 * s}, // 00:00:54
	})
}

// TestClockWindowOfADayBeginsAtMidnight, UTC, whatever the second.
func TestClockWindowOfADayBeginsAtMidnight(t *testing.T) {
	zero := time.Date(2024, time.February, 28, 23, 59, 59, 999_999_999, time.UTC)
	c := &counter{policy: newWindow(1, int64(24*time.Hour), true)}
	require.True(t, try(c, 1, 0, zero.UnixNano()))
	require.False(t, try(c, 1, 0, zero.UnixNano()))
	require.True(t, try(c, 1, 1, zero.UnixNano()), "a leap day's midnight")
	require.Equal(t, int64(24*time.Hour), waitWindow(c, 1))
}

// TestWallClockJumps: no jump cuts an open window short, makes it longer or counts it twice; the next one is aligned
// anew.
func TestWallClockJumps(t *testing.T) {
	const s = int64(time.Second)
	for _, jump := range []int64{-3600 * s, -7 * s, -1, 1, 4 * s, 3600 * s} {
		c := &counter{policy: newWindow(2, 10*s, true)}
		epoch := 1_000_000 * s
		require.True(t, try(c, 2, 4*s, epoch))
		for _, now := range []int64{4 * s, 5 * s, 10*s - 1} {
			require.False(t, try(c, 1, now, epoch+jump), "jump by %d", jump)
			require.Equal(t, 10*s-now, waitFor(c, 1, now), "jump by %d", jump)
		}
		require.True(t, try(c, 1, 10*s, epoch+jump))
		end := 10*s + waitWindow(c, 10*s)
		require.Zero(t, (epoch+jump+end)%(10*s), "jump by %d", jump)
	}
}

// TestWindowNeverAllowsMore: at most so many requests in a window, the windows do not overlap, and nothing is refused
// while there is room. For windows by the clock the model is a count for every multiple of the length.
func TestWindowNeverAllowsMore(t *testing.T) {
	random := rand.New(rand.NewSource(9))
	for run := 0; run < 300; run++ {
		clock, epoch := run%2 == 0, random.Int63n(1<<60)
		p := newWindow(1+random.Int63n(20), 1000+random.Int63n(1<<40), clock)
		now := random.Int63n(1 << 40)
		c := &counter{at: now, policy: p}
		opened, count := int64(-1), int64(0)
		for i := 0; i < 200; i++ {
			now += step(random, p)
			cost := 1 + random.Int63n(p.size)
			if clock {
				if window := (epoch + now) / p.period; window != opened {
					opened, count = window, 0
				}
			} else if opened < 0 || now >= opened+p.period {
				opened, count = now, 0
			}
			fits := count+cost <= p.size
			require.Equal(t, fits, try(c, cost, now, epoch), "run %d, request %d of %+v", run, i, p)
			if fits {
				count += cost
			}
			require.Equal(t, p.size-count, remaining(c, now))
		}
	}
}
