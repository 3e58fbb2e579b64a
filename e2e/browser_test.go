package e2e

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/sluice-ratelimit/sluice/tools/demo/gateway"
)

// page is the playground in a tab of a browser.
type page struct {
	ctx context.Context
	url string

	mu       sync.Mutex
	received []received
	errors   []string
}

// received is a response as it came over the network; the names of its headers are in lower case.
type received struct {
	path   string
	status int
	header map[string]string
}

// dot is what stands for one request in the picture.
type dot struct {
	N, Status int
	Outcome   string
	Remaining string
	Seconds   float64
	X, Y      float64 // of its middle, in the window
	Inside    bool    // the whole of it is within the chart
}

// openPlayground starts a browser, of nobody's profile, that lasts until the test ends.
func openPlayground(t *testing.T, s *stage) *page {
	t.Helper()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(chromium(t)),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Headless,
		chromedp.NoSandbox, // CI is root, whom Chromium's sandbox does not take
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("lang", "en"),
	)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &page{ctx: ctx, url: s.web + "/playground/"}
	require.NoError(t, chromedp.Listen(ctx, p.note))
	p.media(t, "light")
	p.size(t, 1200, 800)
	p.load(t)
	return p
}

// chromium is the browser's program.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "Chromium", "apt-get install chromium")
	return ""
}

// note keeps what the network layer receives and what the page complains of. (The browser's own complaints, about every response
// of status 429, are none: that is what this is all about.)
func (p *page) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventResponseReceived:
		u, err := url.Parse(e.Response.URL)
		if err != nil {
			return
		}
		r := received{path: u.Path, status: int(e.Response.Status), header: map[string]string{}}
		for name, value := range e.Response.Headers {
			r.header[strings.ToLower(name)], _ = value.(string)
		}
		p.received = append(p.received, r)
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		p.errors = append(p.errors, "console."+string(e.Type))
	}
}

func (p *page) responses(path string) (found []received) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.received {
		if r.path == path {
			found = append(found, r)
		}
	}
	return found
}

func (p *page) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errors
}

// do has the browser do something that takes no longer than some seconds.
func (p *page) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 20*time.Second)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, actions...))
}

// ask evaluates an expression in the page.
func ask[T any](t *testing.T, p *page, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 20*time.Second)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err, "%s", expression)
	return value
}

func (p *page) load(t *testing.T) {
	t.Helper()
	p.do(t, chromedp.Navigate(p.url), chromedp.WaitVisible(chromedp.CSS("#route-data + .name")))
}

func (p *page) size(t *testing.T, width, height int64) {
	t.Helper()
	p.do(t, chromedp.EmulateViewport(width, height))
}

// media chooses between the light and the dark colours.
func (p *page) media(t *testing.T, scheme string) {
	t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(t, err)
}

func (p *page) click(t *testing.T, selector string) {
	t.Helper()
	p.do(t, chromedp.Click(chromedp.CSS(selector)))
}

// keys presses keys, wherever the focus is.
func (p *page) keys(t *testing.T, keys string) {
	t.Helper()
	p.do(t, chromedp.KeyEvent(keys))
}

// fill clicks into a field and types over what is there.
func (p *page) fill(t *testing.T, selector, text string) {
	t.Helper()
	p.click(t, selector)
	p.do(t, chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(text))
}

func (p *page) focused(t *testing.T) string {
	t.Helper()
	return ask[string](t, p, `document.activeElement.id`)
}

// tabTo presses Tab until an element has the focus, and sees that a person would see it there.
func (p *page) tabTo(t *testing.T, id string) {
	t.Helper()
	for range 40 {
		p.keys(t, kb.Tab)
		if p.focused(t) == id {
			visible := `[document.activeElement, document.activeElement.closest("label")].some(e => {
				const { outlineStyle, opacity } = e ? getComputedStyle(e) : {};
				return outlineStyle === "solid" && opacity === "1";
			})`
			require.True(t, ask[bool](t, p, visible), "#%s has the focus and nothing shows it", id)
			return
		}
	}
	require.Fail(t, "Tab does not lead to #"+id)
}

// waitIdle waits until all requests of a run are answered and drawn.
func (p *page) waitIdle(t *testing.T) {
	t.Helper()
	waitFor(t, "the end of a run", func() bool {
		return ask[bool](t, p, `document.body.dataset.running === "false" && document.querySelector("#summary").textContent.includes("allowed,")`)
	})
}

func (p *page) text(t *testing.T, selector string) string {
	t.Helper()
	return ask[string](t, p, `document.querySelector("`+selector+`").textContent`)
}

func (p *page) visible(t *testing.T, selector string) bool {
	t.Helper()
	return ask[bool](t, p, `document.querySelector("`+selector+`").checkVisibility()`)
}

// dots reads the picture, in the order in which the responses came, once its animation is over: before, the middle of a dot is
// not where it belongs.
func (p *page) dots(t *testing.T) []dot {
	t.Helper()
	time.Sleep(400 * time.Millisecond)
	return ask[[]dot](t, p, `(() => {
		const chart = document.querySelector("#chart").getBoundingClientRect();
		return [...document.querySelectorAll("#dots .dot")].map(e => {
			const { n, status, outcome, remaining, seconds } = e.dataset;
			const box = e.getBoundingClientRect();
			return {
				N: Number(n), Status: Number(status), Outcome: outcome, Remaining: remaining, Seconds: Number(seconds),
				X: box.x + box.width / 2, Y: box.y + box.height / 2,
				Inside: box.left >= chart.left && box.right <= chart.right && box.top >= chart.top && box.bottom <= chart.bottom,
			};
		}).sort((a, b) => a.N - b.N);
	})()`)
}

// savePicture writes what the window shows to .cache/playground.png, or where PLAYGROUND_PICTURE says: docs/playground.png is
// what the README shows.
func (p *page) savePicture(t *testing.T) {
	t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	root, err := gateway.Root()
	require.NoError(t, err)
	file := filepath.Join(root, ".cache", "playground.png")
	if name := os.Getenv("PLAYGROUND_PICTURE"); name != "" {
		file = filepath.Join(root, name)
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, picture, 0o644))
	t.Logf("saved %s, %d kB", file, len(picture)/1000)
}
