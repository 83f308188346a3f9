package memaudit_test

import (
	"testing"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/auditlogtest"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	auditlogtest.Run(t, func(testing.TB) auditlog.Store { return new(memaudit.Store) })
}

func TestMemoryClock(t *testing.T) {
	t.Parallel()
	auditlogtest.RunClock(t, func(_ testing.TB, now func() time.Time) auditlog.Store { return &memaudit.Store{Now: now} })
}
