package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// TestPlayground opens the page in a real browser, through the gateway as the demo sets it up, and uses it as a person does.
// What it draws must be what has happened: as the backend's log and the responses themselves have it.
func TestPlayground(t *testing.T) {
	s := start(t, setup{dynamic: "examples/demo/dynamic.yml", args: everybody})
	p := openPlayground(t, s)
	t.Run("burst", func(t *testing.T) { testPlaygroundBurst(t, s, p) })
	t.Run("email", func(t *testing.T) { testPlaygroundEmail(t, s, p) })
	t.Run("keyboard alone", func(t *testing.T) { testPlaygroundKeyboard(t, s, p) })
	t.Run("phone", func(t *testing.T) { testPlaygroundPhone(t, p) })
	t.Run("picture", func(t *testing.T) { testPlaygroundPicture(t, p) })
	require.Empty(t, p.complaints(), "the browser's console")
}

// testPlaygroundBurst sends 15 requests at once with one click.
func testPlaygroundBurst(t *testing.T, s *stage, p *page) {
	s.clearLog(t)
	p.click(t, "#preset-burst")
	p.waitIdle(t)
	dots := p.dots(t)
	require.Len(t, dots, 15)

	// Against the backend: a dot is drawn as allowed for each request that has reached it, and no other.
	require.Len(t, s.log(t, "/data"), outcomes(dots)["allowed"])
	require.GreaterOrEqual(t, outcomes(dots)["allowed"], 10)
	require.Equal(t, 15, outcomes(dots)["allowed"]+outcomes(dots)["refused"])

	// Against the responses, as the browser's network layer saw them.
	responses := p.responses("/data")
	require.Len(t, responses, 15)
	var drawn, sent []string
	for i, d := range dots {
		require.Equal(t, i+1, d.N)
		require.Equal(t, map[int]string{200: "allowed", 429: "refused"}[d.Status], d.Outcome)
		drawn = append(drawn, strconv.Itoa(d.Status)+" "+d.Remaining)
		sent = append(sent, strconv.Itoa(responses[i].status)+" "+responses[i].header["x-ratelimit-remaining"])
	}
	slices.Sort(drawn)
	slices.Sort(sent)
	require.Equal(t, sent, drawn)

	// Against the picture: later is further to the right, more left is higher, refused is lower than anything allowed.
	for i, d := range dots {
		require.True(t, d.Inside, "dot %d is outside of the chart", d.N)
		if i == 0 {
			continue
		}
		before := dots[i-1]
		// A dot is numbered when its response's body has been read, and stands where the header came in, some
		// milliseconds before.
		require.GreaterOrEqual(t, d.Seconds, before.Seconds-0.05)
		require.GreaterOrEqual(t, d.X, before.X-11-8, "marks closer than 11 pixels share a column") // see chart.js
		if d.Outcome == "refused" {
			require.Greater(t, d.Y, dots[0].Y)
		}
		if d.Outcome == "allowed" && before.Outcome == "allowed" && d.left() < before.left() {
			require.Greater(t, d.Y, before.Y)
		}
	}

	// And the words.
	require.Equal(t, strconv.Itoa(outcomes(dots)["allowed"]), p.text(t, "#allowed"))
	require.Equal(t, strconv.Itoa(outcomes(dots)["refused"]), p.text(t, "#refused"))
	require.Equal(t, "10", p.text(t, "#limit"))
	require.Equal(t, dots[14].Remaining, p.text(t, "#remaining"))
	require.Contains(t, p.text(t, "#summary"), "15 requests: "+p.text(t, "#allowed")+" allowed, "+p.text(t, "#refused")+" refused")
	require.Contains(t, p.text(t, "#headers"), "x-ratelimit-remaining")
	require.False(t, p.visible(t, "#notice"), "%s", p.text(t, "#notice"))
}

// testPlaygroundEmail asks twice for the same address: the second time is too soon, and the page counts down.
func testPlaygroundEmail(t *testing.T, s *stage, p *page) {
	s.clearLog(t)
	p.click(t, `label:has(#route-email)`)
	p.fill(t, "#value", "ann@example.com"+kb.Tab)
	p.click(t, "#preset-one")
	p.waitIdle(t)
	require.Equal(t, "1", p.text(t, "#allowed"))
	require.Equal(t, "0", p.text(t, "#refused"))

	p.click(t, "#preset-one")
	p.waitIdle(t)
	told := time.Now()
	require.Equal(t, "1", p.text(t, "#refused"))
	require.Contains(t, p.text(t, "#status-line"), "429")
	require.Contains(t, p.text(t, "#body"), "Too many requests")
	require.Contains(t, p.text(t, "#headers"), "retry-after")
	require.Len(t, s.log(t, resetPath), 1)

	// It counts down, second by second, to the moment when the request does pass.
	var seen []string
	waitFor(t, "the countdown's end", func() bool {
		if now := p.text(t, "#countdown"); !slices.Contains(seen, now) {
			seen = append(seen, now)
		}
		return slices.Contains(seen, "now")
	})
	t.Logf("the countdown said %q in %v", seen, time.Since(told))
	retryAfter, err := strconv.Atoi(p.responses(resetPath)[1].header["retry-after"])
	require.NoError(t, err)
	require.LessOrEqual(t, len(seen)-1, retryAfter)
	require.Greater(t, len(seen), 2)
	for i, text := range slices.Backward(seen) {
		expected := "now"
		if n := len(seen) - 1 - i; n > 0 {
			expected = "in " + strconv.Itoa(n) + " s"
		}
		require.Equal(t, expected, text)
	}
	p.click(t, "#preset-one")
	p.waitIdle(t)
	require.Equal(t, "2", p.text(t, "#allowed"))
	require.Len(t, s.log(t, resetPath), 2)
}

// testPlaygroundKeyboard does without a mouse.
func testPlaygroundKeyboard(t *testing.T, s *stage, p *page) {
	p.load(t)
	s.clearLog(t)
	p.tabTo(t, "route-data")
	p.keys(t, kb.ArrowRight)
	require.Equal(t, "route-keyed", p.focused(t))
	p.tabTo(t, "value")
	p.keys(t, "bob"+kb.Tab) // what was there is selected, as it is for a person who comes with Tab
	p.tabTo(t, "count")
	p.keys(t, "7")
	p.tabTo(t, "rate")
	p.keys(t, "50"+kb.Enter)
	p.waitIdle(t)
	require.Equal(t, "5", p.text(t, "#allowed"))
	require.Equal(t, "2", p.text(t, "#refused"))
	require.Len(t, s.log(t, "/keyed"), 5)

	p.tabTo(t, "clear")
	p.keys(t, kb.Enter)
	require.Equal(t, "0", p.text(t, "#allowed"))
	require.Empty(t, p.dots(t))
}

// testPlaygroundPhone has a screen as narrow as phones have.
func testPlaygroundPhone(t *testing.T, p *page) {
	p.size(t, 360, 740)
	defer p.size(t, 1200, 800)
	p.load(t)
	p.click(t, "#preset-one")
	p.waitIdle(t)
	require.LessOrEqual(t, ask[float64](t, p, "document.documentElement.scrollWidth"), 360.0, "it must not scroll sideways")
	for _, d := range p.dots(t) {
		require.True(t, d.Inside)
	}
}

// testPlaygroundPicture takes the picture that the README shows: a burst, three seconds of rest, and another burst.
func testPlaygroundPicture(t *testing.T, p *page) {
	time.Sleep(5 * time.Second)                                              // until the bucket is full
	p.do(t, chromedp.EmulateViewport(960, 790, chromedp.EmulateScale(1.25))) // ends between the page's two boxes
	p.load(t)
	p.click(t, "#preset-burst")
	p.waitIdle(t)
	time.Sleep(3 * time.Second)
	p.click(t, "#preset-burst")
	p.waitIdle(t)
	dots := p.dots(t)
	require.Len(t, dots, 30)
	require.GreaterOrEqual(t, outcomes(dots)["allowed"], 16)
	p.savePicture(t)
}

// outcomes counts dots by what became of the request.
func outcomes(dots []dot) map[string]int {
	counts := map[string]int{}
	for _, d := range dots {
		counts[d.Outcome]++
	}
	return counts
}

func (d dot) left() int {
	n, _ := strconv.Atoi(d.Remaining)
	return n
}

// log is what has reached the backend on a path.
func (s *stage) log(t *testing.T, path string) (urls []string) {
	t.Helper()
	for _, part := range strings.Split(s.get(t, "/log").body, `"url":"`)[1:] {
		if url, _, _ := strings.Cut(part, `"`); url == path {
			urls = append(urls, url)
		}
	}
	return urls
}

func (s *stage) clearLog(t *testing.T) {
	t.Helper()
	require.Equal(t, http.StatusNoContent, s.send(t, http.MethodDelete, "/log", "").status)
}
