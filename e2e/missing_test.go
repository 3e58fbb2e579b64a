package e2e

import (
	"fmt"
	"os"
	"testing"
)

// missing skips a test that needs a program this machine does not have, and says so even where `go test` shows no skips. In CI,
// which installs them all, it is a failure.
func missing(t *testing.T, program, remedy string) {
	t.Helper()
	message := fmt.Sprintf("NOT TESTED: %s needs %s (%s).", t.Name(), program, remedy)
	if os.Getenv("CI") != "" {
		t.Fatal(message)
	}
	_ = os.WriteFile("/dev/tty", []byte(message+"\n"), 0) // where there is a terminal: go test hides what a passing package prints
	t.Skip(message)
}
