package artifact_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/artifact"
)

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// It is not parallel to other tests, because it counts all allocations.
func TestAnUploadNeedsLittleMemory(t *testing.T) {
	driver := folder(t)
	s := open(t, func(c *artifact.Config) { c.Driver = driver })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.Put(t.Context(), artifact.Tools, "a.ts", io.LimitReader(zeros{}, 5<<20))
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "bytes, of which most are garbage")
}
