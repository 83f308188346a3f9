package sqlaudit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/auditlogtest"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s := store(t, d)
		auditlogtest.Run(t, func(testing.TB) auditlog.Store { return s })
		auditlogtest.RunClock(t, func(t testing.TB, now func() time.Time) auditlog.Store {
			s, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine()), Now: now})
			require.NoError(t, err)
			return s
		})
	})
}
