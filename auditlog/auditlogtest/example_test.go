package auditlogtest_test

import (
	"testing"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/auditlogtest"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

func ExampleRun() {
	// In a _test.go file of the store's own package:
	_ = func(t *testing.T) {
		auditlogtest.Run(t, func(testing.TB) auditlog.Store { return new(memaudit.Store) })
	}
}

func ExampleRunClock() {
	_ = func(t *testing.T) {
		auditlogtest.RunClock(t, func(_ testing.TB, now func() time.Time) auditlog.Store { return &memaudit.Store{Now: now} })
	}
}
