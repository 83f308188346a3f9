//go:build !race

// With the race detector, a pool drops a part of its elements: each file of an archive then
// allocates a compressor.

package archive_test

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/catalog/archive"
)

// An archive of 28 KiB with 1,998 names of 255 directories took half a minute: every prefix of
// every path was normalized. The work for the largest paths that are accepted is bounded too.
func TestPathsAreBoundedInWork(t *testing.T) {
	deep := strings.Repeat("d/", 254)
	wide := strings.Repeat("é/", 31)
	for name, row := range map[string]struct {
		entries []entry
		want    string
	}{
		"255 directories":           {numbered(1998, deep+"%d"), "is in more than 31 directories"},
		"255 directories each":      {numbered(1998, "%d/"+deep[:500]), "is in more than 31 directories"},
		"31 directories":            {numbered(1998, wide+"%d"), ""},
		"31 directories of its own": {numbered(64, "%d/"+strings.Repeat("01234567é/", 30)+"x"), ""},
	} {
		for kind, data := range map[string][]byte{
			"zip": zipped(t, append(row.entries, entry{name: "SKILL.md", content: front})...),
			"tar": tarred(t, append(row.entries, entry{name: "SKILL.md", content: front})...),
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := archive.Normalize(bytes.NewReader(data), int64(len(data)), "", t.TempDir(), io.Discard)
				runtime.ReadMemStats(&after)
				if row.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, row.want)
				}
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
			})
		}
	}
}
