package sqlaudit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

// The size of a statement is bounded, whatever the size of the details: PostgreSQL closes the
// connection above one gigabyte.
func TestStatementsOfLongDetailsAreBounded(t *testing.T) {
	t.Parallel()
	type lines struct{ Lines []string }
	long := lines{slices.Repeat([]string{strings.Repeat(`"`, 2000)}, 60)} // 240,000 bytes as JSON
	paste := auditlog.Define[lines]("agent.paste").Record(event("t", 1), long)
	dbtest.Each(t, func(t *testing.T, url string) {
		d := database(t, url)
		rec, pool := recordDB(t, d, url)
		s, err := sqlaudit.New(sqlaudit.Config{Write: pool, Read: d.Read(), Engine: string(d.Engine())})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		for range 2 { // the store knows the end of the log the second time
			require.NoError(t, s.Append(t.Context(), slices.Repeat([]auditlog.Record{paste}, 50)...))
			largest, inserts := 0, 0
			for _, a := range rec.take() {
				if !strings.Contains(a.query, "INSERT INTO audit_entries") {
					continue
				}
				inserts++
				size := 0
				for _, v := range a.args {
					if text, ok := v.(string); ok {
						size += len(text)
					}
				}
				largest = max(largest, size)
			}
			require.Greater(t, inserts, 1)
			require.Less(t, largest, 24<<20) // 8 MiB of details and one more; PostgreSQL's arrays escape their quotes again
		}
		require.EqualValues(t, 100, verified(t, s, "t").Checked)
	})
}
