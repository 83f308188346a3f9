package artifact_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/artifact"
	"github.com/seed93082962/agenthost/hub/artifact/artifacttest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	artifacttest.Run(t, func(*testing.T) artifact.Driver { return &artifact.Memory{} })
}

func TestFolder(t *testing.T) {
	t.Parallel()
	artifacttest.Run(t, func(t *testing.T) artifact.Driver {
		path := filepath.Join(t.TempDir(), "data", "blobs")
		f, err := artifact.OpenFolder(path)
		require.NoError(t, err)
		t.Cleanup(func() {
			temporary, err := os.ReadDir(filepath.Join(path, ".tmp"))
			require.NoError(t, err)
			require.Empty(t, temporary)
			require.NoError(t, f.Close())
		})
		return f
	})
}
