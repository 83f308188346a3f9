package hub_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// The checksums in testdata/migrations.txt are in databases of earlier versions: a migration that
// changes would make the hub reject them. A row is added when a migration was released.
func TestMigrationsOfEarlierVersionsHaveTheirText(t *testing.T) {
	text, err := os.ReadFile("testdata/migrations.txt")
	require.NoError(t, err)
	dbtest.Each(t, func(t *testing.T, url string) {
		open(t, url)
		d := dbtest.Open(t, url)
		n := 0
		for line := range strings.Lines(string(text)) {
			var engine, series, name, checksum string
			var version int
			_, err := fmt.Sscan(line, &engine, &series, &version, &name, &checksum)
			require.NoError(t, err)
			if engine != string(d.Engine()) {
				continue
			}
			n++
			var applied string
			require.NoError(t, d.Read().QueryRow("SELECT checksum FROM agenthost_migrations WHERE series = $1 AND version = $2 AND name = $3",
				series, version, name).Scan(&applied), line)
			require.Equal(t, checksum, applied, line)
		}
		require.Equal(t, 19, n)
	})
}
