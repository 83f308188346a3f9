package session_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs child processes of the tests.
func TestMain(m *testing.M) {
	if job := os.Getenv("SESSION_TEST_CHILD"); job != "" {
		os.Exit(runChild(job))
	}
	goleak.VerifyTestMain(m)
}
