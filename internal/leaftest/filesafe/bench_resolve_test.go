package filesafe_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// BenchmarkResolve resolves paths of directories. The time for each name does not grow with their
// number.
func BenchmarkResolve(b *testing.B) {
	root := b.TempDir()
	require.NoError(b, os.MkdirAll(filepath.Join(root, strings.Repeat("d/", 256)), 0o700))
	dir, err := filesafe.Open(root)
	require.NoError(b, err)
	defer dir.Close()
	for _, names := range []int{1, 16, 64, 128, 256} {
		b.Run(fmt.Sprintf("names=%d", names), func(b *testing.B) {
			path := strings.Repeat("d/", names)
			for b.Loop() {
				if _, err := dir.Resolve(path); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(names), "ns/name")
		})
	}
}
