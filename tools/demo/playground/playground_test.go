package playground

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, name string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, Prefix+name, nil))
	return w
}

func TestEveryFileIsServedAsWhatItIs(t *testing.T) {
	types := map[string]string{".html": "text/html", ".css": "text/css", ".js": "javascript", ".svg": "image/svg+xml"}

	names, err := fs.Glob(files, "*")
	if err != nil || len(names) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, name := range names {
		target := strings.TrimSuffix(name, "index.html") // a file server sends /index.html to /
		w := get(t, target)
		want := types[path.Ext(name)]
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || want == "" || !strings.Contains(got, want) {
			t.Errorf("%s: status %d, type %q, want 200 and %q", name, w.Code, got, want)
		}
		if content, _ := fs.ReadFile(files, name); w.Body.String() != string(content) {
			t.Errorf("%s: not served as it is", name)
		}
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	for _, name := range []string{"playground.go", "nothing.js"} {
		if w := get(t, name); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", name, w.Code)
		}
	}
}

// The page must work without a network: all that it names is one of its own files, and nothing names another origin.
func TestThePageStandsAlone(t *testing.T) {
	references := map[string]*regexp.Regexp{
		".html": regexp.MustCompile(`(?:src|href|action|srcset|poster)="([^"]*)"`),
		".js":   regexp.MustCompile(`(?:from|import)\s*\(?"([^"]*)"`),
		".css":  regexp.MustCompile(`(?:url\(|@import\s*)["']?([^"')]*)`),
	}
	elsewhere := regexp.MustCompile(`(?i)\b(?:https?:|wss?:)?//[a-z0-9]`)
	const namespace = "http://www.w3.org/2000/svg" // a name that is never fetched

	names, _ := fs.Glob(files, "*")
	found := 0
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(content), namespace, "")
		if origin := elsewhere.FindString(text); origin != "" {
			t.Errorf("%s names another origin: %s", name, origin)
		}

		pattern := references[path.Ext(name)]
		if pattern == nil {
			continue
		}
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			target := strings.TrimPrefix(match[1], "./")
			if strings.HasPrefix(target, "#") { // a part of the same document
				continue
			}
			found++
			if _, err := fs.Stat(files, target); err != nil {
				t.Errorf("%s refers to %q, which is not a file of the page", name, match[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d references; does the pattern still fit how the page is written?", found)
	}
}

func TestTheBrowserIsToldToStayHere(t *testing.T) {
	header := get(t, "").Header()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'",
		"X-Content-Type-Options":  "nosniff",
		"Cache-Control":           "no-cache",
	} {
		if got := header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want it to begin with %q", name, got, want)
		}
	}
}
