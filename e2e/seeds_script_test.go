package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFastAPIArticlesOwnTest runs the script with which the FastAPI article tests its limiter, unchanged, and expects it to print
// what the article shows (testdata/test_ratelimit.txt, where the article's dots are written out, and the refill test,
// which the article only describes).
//
// The script has its URL built in, http://127.0.0.1:8000/data. The gateway of the tests is on a free port, and is made the script's
// HTTP proxy: so the test runs wherever something else has port 8000.
func TestFastAPIArticlesOwnTest(t *testing.T) {
	python := pythonWithRequests(t)
	s := start(t, setup{dynamic: "examples/fastapi-bucket/dynamic.yml"})
	expected, err := os.ReadFile("testdata/test_ratelimit.txt")
	require.NoError(t, err)

	script := exec.CommandContext(t.Context(), python, "testdata/test_ratelimit.py")
	script.Env = append(os.Environ(), "http_proxy="+s.web, "no_proxy=")
	script.Stderr = os.Stderr
	began := time.Now()
	output, err := script.Output()
	busy := time.Since(began) - 9*time.Second // the script sleeps for 6 s and for 3 s
	require.NoError(t, err)
	if string(output) == string(expected) {
		return
	}

	// "The exact split between allowed and blocked requests may vary slightly due to timing", says the article: by the two
	// tokens of each second that the requests themselves took.
	t.Logf("the script took %v besides sleeping, and printed:\n%s", busy.Round(time.Millisecond), output)
	words := regexp.MustCompile(`Allowed: (\d+), Blocked: (\d+)`).FindStringSubmatch(string(output))
	require.Len(t, words, 3)
	allowed, _ := strconv.Atoi(words[1])
	blocked, _ := strconv.Atoi(words[2])
	require.Equal(t, 15, allowed+blocked)
	require.GreaterOrEqual(t, allowed, 10)
	require.LessOrEqual(t, allowed, 10+int(2*busy.Seconds()))
	require.Equal(t, strings.Count(string(expected), "\n"), strings.Count(string(output), "\n"))
	_, refilled, _ := strings.Cut(string(output), "after refill ---")
	require.Equal(t, 5, strings.Count(refilled, "Status: 200"))
	if busy < 500*time.Millisecond {
		require.Equal(t, string(expected), string(output), "no token can have come back in between")
	}
}

// pythonWithRequests is a Python 3 that has the one package the script needs.
func pythonWithRequests(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} { // the first one may be the user's own, without the system's packages
		if exec.Command(python, "-c", "import requests").Run() == nil {
			return python
		}
	}
	missing(t, "Python 3 with the package requests", "apt-get install python3-requests")
	return ""
}
