package builtin_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// While a directory in the path is repeatedly replaced by a link to another one in the working
// directory, a change of the path that was judged does not change what the link leads to.
func TestDirectoryReplacedByALinkInside(t *testing.T) {
	b := setup(t)
	b.put(t, "judged/f", "as it was")
	b.put(t, ".other/f", "as it was")
	b.link(t, ".other", "link")
	at, link := filepath.Join(b.dir, "judged"), filepath.Join(b.dir, "link")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
		}
	}()
	written := 0
	for range 2000 {
		_, err := b.call(t.Context(), t, "Write", in{"file_path": "judged/f", "content": "changed"})
		if err == nil {
			written++
		}
		_, _ = b.call(t.Context(), t, "Edit", in{"file_path": "judged/f", "old_string": "as it", "new_string": "changed"})
	}
	close(stop)
	<-stopped
	require.Positive(t, written)
	require.Equal(t, "as it was", b.content(t, ".other/f"))
	entries, err := os.ReadDir(filepath.Join(b.dir, ".other"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
