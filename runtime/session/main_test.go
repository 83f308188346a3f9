package session_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes this program the child of some of its own tests.
func TestMain(m *testing.M) {
	if job := os.Getenv("SESSION_TEST_CHILD"); job != "" {
		os.Exit(child(job))
	}
	goleak.VerifyTestMain(m)
}
