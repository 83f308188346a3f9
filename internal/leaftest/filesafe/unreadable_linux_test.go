package filesafe_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/internal/usertest"
)

func TestUnreadable(t *testing.T) {
	l := newLayout(t)
	l.write(t, "root/locked/in.txt", "x")
	l.write(t, "root/noenter/in.txt", "x")
	l.write(t, "root/nolist/in.txt", "x")
	l.link(t, "root/tolocked", "locked/in.txt")
	for path, mode := range map[string]os.FileMode{"a.txt": 0, "locked": 0, "noenter": 0o744, "nolist": 0o711} {
		require.NoError(t, os.Chmod(filepath.Join(l.root, path), mode))
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(l.root, "locked"), 0o755) })
	api := &filesafe.Handlers{Dir: l.dir, Fail: func(_ http.ResponseWriter, _ *http.Request, err error) { t.Errorf("fault: %v", err) }}
	got := map[string]*httptest.ResponseRecorder{}
	var written error
	usertest.AsUnprivileged(t, func() {
		for _, url := range []string{"/c?path=a.txt", "/c?path=link", "/c?path=abs", "/c?path=locked/in.txt", "/c?path=tolocked",
			"/c?path=nolist/in.txt",
			"/l?path=locked", "/l?path=nolist", "/l?path=locked/in.txt", "/l?recursive=true", "/l?path=noenter"} {
			w := httptest.NewRecorder()
			if got[url] = w; url[1] == 'c' {
				api.Content(w, httptest.NewRequest(http.MethodGet, url, nil))
			} else {
				api.List(w, httptest.NewRequest(http.MethodGet, url, nil))
			}
		}
		written = l.dir.WriteFile("a.txt", []byte("x"), 0o644)
	})
	for url, want := range map[string]string{
		"/c?path=a.txt":         "File not found",
		"/c?path=link":          "File not found",
		"/c?path=abs":           "File not found",
		"/c?path=locked/in.txt": "File not found",
		"/c?path=tolocked":      "File not found",
		"/c?path=nolist/in.txt": "File not found", // the limit of os.Root that the package comment describes
		"/l?path=locked":        "Directory not found",
		"/l?path=noenter":       "Directory not found", // its names are readable, its entries are not
		"/l?path=nolist":        "Directory not found",
		"/l?path=locked/in.txt": "Directory not found",
	} {
		require.Equal(t, 404, got[url].Code, url)
		require.Equal(t, `{"error":"`+want+`"}`+"\n", got[url].Body.String(), url)
	}
	require.ErrorIs(t, written, os.ErrPermission)

	// Unreadable directories are listed without their contents, and the other entries are complete.
	whole := answer{got["/l?recursive=true"].Code, got["/l?recursive=true"].Header(), got["/l?recursive=true"].Body.String()}
	lines := whole.listing(t).lines()
	for _, want := range []string{"locked directory 0", "nolist directory 0", "noenter directory 0", "a.txt file 12 mime=text/plain",
		"tolocked symlink 0", "sub/deep/c.txt file 12 mime=text/plain"} {
		require.Contains(t, lines, want)
	}
	for _, line := range lines {
		require.NotContains(t, line, "/in.txt file")
	}
}
