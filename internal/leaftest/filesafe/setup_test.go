package filesafe_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// secret is the content of all files outside and of no file inside.
const secret = "the secret outside"

// layout is a directory to serve, root, with a sibling.
type layout struct {
	top, root string
	dir       *filesafe.Dir
}

// newLayout creates a tree with each kind of file and each kind of link.
func newLayout(t testing.TB) layout {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	l := layout{top: top, root: filepath.Join(top, "root")}
	for path, text := range map[string]string{
		"outside/secret.txt":      secret,
		"outside/dir/secret.txt":  secret,
		"rootlike/secret.txt":     secret, // its path starts like that of root
		"root/a.txt":              "content of a",
		"root/empty.txt":          "",
		"root/sub/b.txt":          "content of b",
		"root/sub/deep/c.txt":     "content of c",
		"root/sub-b/e.txt":        "content of e",
		"root/a..b":               "two dots",
		"root/...":                "three dots",
		`root/back\slash`:         "backslash",
		"root/ünï côdé \"%.pdf":   "unicode",
		"root/latin\xff.txt":      "not UTF-8",
		"root/.hidden":            "hidden",
		"root/" + longName + "":   "long name",
		"root/sub/secret.txt":     "no secret at all",
		"root/deep/1/2/3/end.txt": "end",
	} {
		l.write(t, path, text)
	}
	for path, target := range map[string]string{
		"outside/back":        "../root/a.txt",
		"outside/rootlink":    "../root",
		"outside/loop":        "loop",
		"root/link":           "a.txt",
		"root/dirlink":        "sub",
		"root/dirlink-slash":  "sub/",
		"root/filelink-slash": "a.txt/",
		"root/self":           ".",
		"root/sub/up":         "../a.txt",
		"root/sub/parent":     "..",
		"root/dots":           "./sub/../sub/./deep/../b.txt",
		"root/abs":            l.root + "/a.txt",
		"root/absdir":         l.root + "/sub",
		"root/absroot":        l.root,
		"root/absup":          l.root + "/sub/../a.txt",
		"root/viaabs":         "absdir/b.txt",
		"root/outback":        "../root/a.txt",
		"root/outback2":       "../outside/back",
		"root/outback3":       "../outside/rootlink/sub",
		"root/tofifo":         "fifo",
		"root/out":            "../outside/secret.txt",
		"root/outabs":         l.top + "/outside/secret.txt",
		"root/outdir":         "../outside",
		"root/outdirabs":      l.top + "/outside",
		"root/outlike":        "../rootlike/secret.txt",
		"root/outparent":      "..",
		"root/outslash":       "/",
		"root/outvia":         "outdir/dir/secret.txt",
		"root/outdots":        "sub/../../outside/secret.txt",
		"root/outback-out":    "../root/out",
		"root/sub/out":        "../../outside/secret.txt",
		"root/proc":           "/proc/self/root" + l.top + "/outside/secret.txt",
		"root/device":         "/dev/zero",
		"root/broken":         "nothing",
		"root/brokendir":      "nothing/sub/x",
		"root/brokenabs":      l.root + "/nothing",
		"root/brokenout":      "../outside/nothing",
		"root/brokenoutabs":   "/nothing/at/all",
		"root/brokenmid":      "nothing/../../outside/secret.txt",
		"root/throughfile":    "a.txt/x",
		"root/throughfileup":  "a.txt/../../outside/secret.txt",
		"root/outthroughfile": "../outside/secret.txt/x",
		"root/loop":           "loop",
		"root/loop1":          "loop2",
		"root/loop2":          "loop1",
		"root/chain/1":        "../a.txt",
	} {
		l.link(t, path, target)
	}
	for i := 2; i <= 42; i++ {
		l.link(t, "root/chain/"+strconv.Itoa(i), strconv.Itoa(i-1))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(l.root, "fifo"), 0o666))
	require.NoError(t, syscall.Mknod(filepath.Join(l.root, "socket"), syscall.S_IFSOCK|0o666, 0))
	l.dir, err = filesafe.Open(l.root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.dir.Close()) })
	return l
}

var longName = strings.Repeat("n", 255)

func (l layout) write(t testing.TB, path, text string) {
	path = filepath.Join(l.top, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func (l layout) link(t testing.TB, path, target string) {
	path = filepath.Join(l.top, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.Symlink(target, path))
}

// answer is a response that a client received.
type answer struct {
	status int
	header http.Header
	body   string
}

// client sends requests to a server of one layout.
type client struct {
	*testing.T
	server *httptest.Server
}

// serve mounts the handlers as the runtime does.
func (l layout) serve(t *testing.T) client {
	api := &filesafe.Handlers{Dir: l.dir, Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
		t.Errorf("internal fault: %v", err)
		w.WriteHeader(http.StatusInternalServerError)
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/files", api.List)
	mux.HandleFunc("/v1/files/content", api.Content)
	return newClient(t, mux)
}

func newClient(t *testing.T, h http.Handler) client {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return client{t, server}
}

// ask sends a request with headers given as name, value, name, value.
func (c client) ask(method, path string, headers ...string) answer {
	req, err := http.NewRequestWithContext(c.Context(), method, c.server.URL+path, nil)
	require.NoError(c, err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := c.server.Client().Do(req)
	require.NoError(c, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(c, err)
	return answer{res.StatusCode, res.Header, string(body)}
}

func (c client) content(name string, headers ...string) answer {
	return c.ask(http.MethodGet, "/v1/files/content?path="+url.QueryEscape(name), headers...)
}

func (c client) list(query string) answer { return c.ask(http.MethodGet, "/v1/files?"+query) }
