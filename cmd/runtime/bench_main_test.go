package main_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// roleVariable names what a test binary is to be instead of a run of tests: the benchmarks start
// it again for the servers that they measure against.
const roleVariable = "AGENTHOST_TEST_ROLE"

// roles of a process started again. Each lives until its standard input ends.
var roles = map[string]func() error{
	"upstream":   serveUpstream,
	"limit":      func() error { return serveLimit(flushWhenDrained) },
	"limit-each": func() error { return serveLimit(flushEachEvent) },
	"proxy":      serveProxy,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeCommand()
		os.Exit(code)
	}))
}
