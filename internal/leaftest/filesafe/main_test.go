package filesafe_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(benchServer); path != "" {
		serveBenchmark(path)
		return
	}
	goleak.VerifyTestMain(m)
}
