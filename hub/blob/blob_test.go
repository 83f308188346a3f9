package blob_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/blob/blobtest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(*testing.T) blob.Driver { return &blob.Memory{} })
}

func TestFolder(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Driver {
		path := filepath.Join(t.TempDir(), "data", "blobs")
		f, err := blob.OpenFolder(path)
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
