package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCORSInABrowser asks the only judge of CORS that counts what a page sees of a refusal.
func TestCORSInABrowser(t *testing.T) {
	t.Parallel()
	s := start(t, setup{dynamic: "examples/cors/dynamic.yml"})
	// A page of another origin than the gateway's: another port is enough. Its Content-Type makes the browser send preflights.
	origin := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, err := fmt.Fprintf(w, `<script type="module">
			let seen = "";
			for (let i = 0; i < 6; i++) {
				try {
					const response = await fetch(%q, { headers: { "Content-Type": "application/json" } });
					seen += response.status + " " + response.headers.get("X-RateLimit-Remaining") + " " + response.headers.get("Retry-After") + "; ";
				} catch (error) {
					seen += error.message + "; ";
				}
			}
			document.body.textContent = seen;
		</script>`, s.web+"/data")
		assert.NoError(t, err)
	}))
	look := func() string {
		t.Helper()
		// Virtual time stands still while a request is under way.
		output, err := exec.CommandContext(t.Context(), chromium(t), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
			"--user-data-dir="+t.TempDir(), "--virtual-time-budget=10000", "--dump-dom", origin).Output()
		require.NoError(t, err)
		return string(output)
	}

	s.edit(t, `["https://app.example.com"]`, `["`+origin+`"]`)
	require.Regexp(t, "200 4 null; 200 3 null; 200 2 null; 200 1 null; 200 0 null; 429 0 (60|5[0-9]); ", look())

	s.edit(t, "[cors, limit]", "[limit, cors]")
	require.Contains(t, look(), "Failed to fetch; Failed to fetch; ")
}
