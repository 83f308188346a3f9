package runtime_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
)

// outside is the content of all files that no response may contain.
const outside = "the secret outside"

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// written is when the files of a worktree were modified.
var written = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// worktree creates a working directory with one file of each kind, next to a directory that must
// not be read.
func worktree(t *testing.T) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	cwd := filepath.Join(top, "cwd")
	writeFile(t, top, "outside/secret.txt", outside)
	writeFile(t, top, "outside/dir/secret.txt", outside)
	for name, text := range map[string]string{
		"a.txt": "content of a", "B.md": "content of b", "empty": "", "a..b": "two dots", ".env": "KEY=value", `ü "%.pdf`: "unicode",
		"sub/b.json": "{}", "sub/deep/c.txt": "content of c", "sub/deep/deeper/d.txt": "content of d", "sub-a/e.txt": "content of e",
	} {
		writeFile(t, cwd, name, text)
		require.NoError(t, os.Chtimes(filepath.Join(cwd, name), written, written))
	}
	for name, target := range map[string]string{
		"link": "a.txt", "intolink": "sub", "abslink": filepath.Join(cwd, "sub", "b.json"), "self": ".", "broken": "nothing",
		"loop": "loop",
		"out":  "../outside", "outfile": "../outside/secret.txt", "outbroken": "../nothing", "outandin": "../cwd/a.txt",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(cwd, name)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(cwd, "fifo"), 0o644))
	return cwd
}

// entriesOf requests a listing and decodes it.
func (b *bench) entriesOf(t *testing.T, query string) (path string, entries []map[string]any) {
	t.Helper()
	res := b.do(t, "GET", "/v1/files"+query, "")
	require.Equal(t, http.StatusOK, res.status, res.body)
	require.Equal(t, "application/json", res.header.Get("Content-Type"))
	var listing struct {
		Path    *string
		Entries []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(res.body), &listing))
	require.NotNil(t, listing.Path)
	require.NotNil(t, listing.Entries, "a list, also where there is nothing")
	return *listing.Path, listing.Entries
}

func named(entries []map[string]any) []string {
	all := []string{}
	for _, e := range entries {
		all = append(all, e["name"].(string))
	}
	return all
}

// filesAt serves a worktree.
func filesAt(t *testing.T, keys ...string) *bench {
	t.Helper()
	return serve(t, nil, func(c *runtime.Config) {
		quick(c)
		c.CWD, c.APIKeys = worktree(t), keys
	})
}

func TestFilesNeedTheKey(t *testing.T) {
	b := filesAt(t, "key")
	for _, path := range []string{"/v1/files", "/v1/files/content?path=a.txt", "/v1/files/content?path=../x",
		"/v1/files/nothing", "/v1/files/"} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE"} {
			for reason, headers := range map[string][]string{"missing x-api-key header": nil, "invalid api key": {"x-api-key", "yek"}} {
				res := b.do(t, method, path, "", headers...)
				require.Equal(t, http.StatusUnauthorized, res.status, "%s %s", method, path)
				if method != "HEAD" {
					require.Equal(t, `{"error":"Unauthorized","reason":"`+reason+`"}`, res.body)
				}
			}
		}
	}
	require.Equal(t, "content of a", b.do(t, "GET", "/v1/files/content?path=a.txt", "", "x-api-key", "key").body)
	require.Equal(t, "KEY=value", b.do(t, "GET", "/v1/files/content?path=.env", "", "x-api-key", "key").body,
		"a key opens all that is there")
}

func TestFilesAreRejected(t *testing.T) {
	const list, content = "/v1/files", "/v1/files/content"
	open, locked := filesAt(t), filesAt(t, "key")
	for name, row := range map[string]struct {
		path, query string
		status      int
		message     string
	}{
		"listing with a null byte":           {list, "path=a%00", 400, "Invalid path"},
		"listing of an absolute path":        {list, "path=/etc", 400, "Invalid path"},
		"listing of a Windows drive":         {list, "path=C:%5Cx", 400, "Invalid path"},
		"listing of a UNC path":              {list, "path=%5C%5Chost%5Cshare", 400, "Invalid path"},
		"listing that climbs out":            {list, "path=../", 400, "Invalid path"},
		"listing that climbs out from below": {list, "path=sub/../../", 400, "Invalid path"},
		"listing that climbs and stays":      {list, "path=sub/../sub", 400, "Invalid path"},
		"listing of a link out":              {list, "path=out", 400, "Invalid path"},
		"listing through a link out":         {list, "path=out/dir", 400, "Invalid path"},
		"listing of a query that is none":    {list, "path=%zz", 400, "Invalid path"},
		"listing of a file":                  {list, "path=a.txt", 400, "Not a directory"},
		"listing of a FIFO":                  {list, "path=fifo", 400, "Not a directory"},
		"depth below 0":                      {list, "recursive=true&depth=-1", 400, "Invalid depth parameter"},
		"depth with a fraction":              {list, "recursive=true&depth=1.5", 400, "Invalid depth parameter"},
		"depth that is not a number":         {list, "recursive=true&depth=all", 400, "Invalid depth parameter"},
		"empty depth":                        {list, "recursive=true&depth=", 400, "Invalid depth parameter"},
		"depth without recursive":            {list, "depth=all", 400, "Invalid depth parameter"},
		"listing of nothing":                 {list, "path=nothing", 404, "Directory not found"},
		"listing of a broken link":           {list, "path=broken", 404, "Directory not found"},
		"content with a null byte":           {content, "path=a.txt%00", 400, "Invalid path"},
		"content at an absolute path":        {content, "path=/etc/passwd", 400, "Invalid path"},
		"content that climbs out":            {content, "path=../outside/secret.txt", 400, "Invalid path"},
		"content that climbs and stays":      {content, "path=sub/../a.txt", 400, "Invalid path"},
		"content behind a link out":          {content, "path=outfile", 400, "Invalid path"},
		"content through a link out":         {content, "path=out/secret.txt", 400, "Invalid path"},
		"content behind a broken link out":   {content, "path=outbroken", 400, "Invalid path"},
		"content of a directory":             {content, "path=sub", 400, "Not a file"},
		"content of a linked directory":      {content, "path=intolink", 400, "Not a file"},
		"content of an empty path":           {content, "path=", 400, "Not a file"},
		"content of no path":                 {content, "", 400, "Not a file"},
		"content of a FIFO":                  {content, "path=fifo", 400, "Not a file"},
		"content of nothing":                 {content, "path=nothing", 404, "File not found"},
		"content of a broken link":           {content, "path=broken", 404, "File not found"},
		"content of a loop":                  {content, "path=loop", 404, "File not found"},
		"content of a file with a slash":     {content, "path=a.txt/", 404, "File not found"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, b := range []*bench{open, locked} { // the checks are independent of keys
				res := b.do(t, "GET", row.path+"?"+row.query, "", "x-api-key", "key")
				require.Equal(t, row.status, res.status, res.body)
				require.Equal(t, `{"error":"`+row.message+`"}`, res.body)
				require.Equal(t, "application/json", res.header.Get("Content-Type"))
				head := b.do(t, "HEAD", row.path+"?"+row.query, "", "x-api-key", "key")
				require.Equal(t, row.status, head.status)
				require.Empty(t, head.body)
			}
		})
	}
}

func TestFilesAreReadOnly(t *testing.T) {
	b := filesAt(t)
	for _, path := range []string{"/v1/files", "/v1/files/content?path=a.txt"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			res := b.do(t, method, path, "evil")
			require.Equal(t, http.StatusMethodNotAllowed, res.status, "%s %s", method, path)
			require.Equal(t, "GET, HEAD", res.header.Get("Allow"))
			require.JSONEq(t, `{"error":"Method not allowed"}`, res.body)
		}
	}
	require.Equal(t, "content of a", b.do(t, "GET", "/v1/files/content?path=a.txt", "").body)
}

func TestListingOfEachKind(t *testing.T) {
	b := filesAt(t)
	path, entries := b.entriesOf(t, "")
	require.Empty(t, path)
	of := map[string]map[string]any{}
	for _, e := range entries {
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, e["mtime"])
		if e["name"] != "a.txt" && e["name"] != "link" {
			delete(e, "mtime")
		}
		of[e["name"].(string)] = e
	}
	delete(of["link"], "mtime")
	type fields = map[string]any
	for name, want := range map[string]fields{
		"a.txt":    {"name": "a.txt", "type": "file", "size": 12.0, "mime": "text/plain", "mtime": "2026-01-02T03:04:05.000000Z"},
		".env":     {"name": ".env", "type": "file", "size": 9.0, "mime": "application/octet-stream"},
		"empty":    {"name": "empty", "type": "file", "size": 0.0, "mime": "application/octet-stream"},
		"sub":      {"name": "sub", "type": "directory", "size": 0.0},
		"fifo":     {"name": "fifo", "type": "other", "size": 0.0},
		"link":     {"name": "link", "type": "symlink", "size": 12.0, "target": "a.txt"},
		"abslink":  {"name": "abslink", "type": "symlink", "size": 2.0, "target": "sub/b.json"},
		"intolink": {"name": "intolink", "type": "symlink", "size": 0.0, "target": "sub"},
		"outandin": {"name": "outandin", "type": "symlink", "size": 12.0, "target": "a.txt"},
		"self":     {"name": "self", "type": "symlink", "size": 0.0, "target": "."},
		"broken":   {"name": "broken", "type": "symlink", "size": 0.0},
		"loop":     {"name": "loop", "type": "symlink", "size": 0.0},
		"out":      {"name": "out", "type": "symlink", "size": 0.0},
		"outfile":  {"name": "outfile", "type": "symlink", "size": 0.0},
	} {
		require.Equal(t, want, of[name])
	}
}

func TestListingInOrder(t *testing.T) {
	b := filesAt(t)
	top := []string{"sub", "sub-a", ".env", "B.md", "a..b", "a.txt", "abslink", "broken", "empty", "fifo", "intolink", "link",
		"loop", "out", "outandin",
		"outbroken", "outfile", "self", `ü "%.pdf`}
	below := []string{"sub", "sub-a", "sub/deep", "sub/deep/deeper", ".env", "B.md", "a..b", "a.txt", "abslink", "broken",
		"empty", "fifo", "intolink", "link", "loop",
		"out", "outandin", "outbroken", "outfile", "self", "sub-a/e.txt", "sub/b.json", "sub/deep/c.txt",
		"sub/deep/deeper/d.txt", `ü "%.pdf`}
	for name, row := range map[string]struct {
		query, path string
		want        []string
	}{
		"the top":                  {"", "", top},
		"an empty path":            {"?path=", "", top},
		"another word than true":   {"?recursive=TRUE", "", top},
		"depth without recursive":  {"?depth=3", "", top},
		"depth 0":                  {"?recursive=true&depth=0", "", top},
		"all":                      {"?recursive=true", "", below},
		"more depth than there is": {"?recursive=true&depth=999999999999999999999999", "", below},
		"a subdirectory":           {"?path=sub", "sub", []string{"deep", "b.json"}},
		"a path that is not clean": {"?path=./sub//deep/", "sub/deep", []string{"deeper", "c.txt"}},
		"below a subdirectory": {"?path=sub&recursive=true", "sub",
			[]string{"sub/deep", "sub/deep/deeper", "sub/b.json", "sub/deep/c.txt", "sub/deep/deeper/d.txt"}},
		"one level of it": {"?path=sub&recursive=true&depth=1", "sub",
			[]string{"sub/deep", "sub/deep/deeper", "sub/b.json", "sub/deep/c.txt"}},
		"a link to a directory":         {"?path=intolink", "intolink", []string{"deep", "b.json"}},
		"two paths, the first of which": {"?path=sub-a&path=sub", "sub-a", []string{"e.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			path, entries := b.entriesOf(t, row.query)
			require.Equal(t, row.path, path)
			require.Equal(t, row.want, named(entries))
		})
	}
}

func TestDownload(t *testing.T) {
	b := filesAt(t)
	for name, row := range map[string]struct{ path, body, mime, file string }{
		"text":                      {"a.txt", "content of a", "text/plain", "a.txt"},
		"JSON":                      {"sub/b.json", "{}", "application/json", "b.json"},
		"empty":                     {"empty", "", "application/octet-stream", "empty"},
		"dots in a name":            {"a..b", "two dots", "application/octet-stream", "a..b"},
		"a name to be encoded":      {"%C3%BC%20%22%25.pdf", "unicode", "application/pdf", "%C3%BC%20%22%25.pdf"},
		"a link":                    {"link", "content of a", "application/octet-stream", "link"},
		"a link out and in":         {"outandin", "content of a", "application/octet-stream", "outandin"},
		"through a link":            {"intolink/b.json", "{}", "application/json", "b.json"},
		"a path that is not clean":  {"./sub//b.json", "{}", "application/json", "b.json"},
		"a configuration with keys": {".env", "KEY=value", "application/octet-stream", ".env"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD"} {
				res := b.do(t, method, "/v1/files/content?path="+row.path, "")
				require.Equal(t, http.StatusOK, res.status)
				require.Equal(t, map[string]string{"GET": row.body, "HEAD": ""}[method], res.body)
				for header, want := range map[string]string{
					"Content-Type": row.mime, "Content-Disposition": "attachment; filename*=UTF-8''" + row.file,
					"Content-Length": strconv.Itoa(len(row.body)),
					"Accept-Ranges":  "bytes", "Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT", "X-Content-Type-Options": "nosniff",
					"Content-Range": "",
				} {
					require.Equal(t, want, res.header.Get(header), header)
				}
			}
		})
	}
}

func TestDownloadOfAPart(t *testing.T) {
	cwd := worktree(t)
	writeFile(t, cwd, "thousand", strings.Repeat("0123456789", 100))
	b := serve(t, nil, func(c *runtime.Config) { c.CWD = cwd })
	for header, want := range map[string]string{ // of Content-Range, or "" for the whole file
		"bytes=0-499": "bytes 0-499/1000", "bytes=500-": "bytes 500-999/1000", "bytes=-300": "bytes 700-999/1000",
		"bytes=0-0":      "bytes 0-0/1000",
		"bytes=990-2000": "bytes 990-999/1000", "bytes=-2000": "bytes 0-999/1000",
		"bytes=0-1,5-6": "", "bytes=5-2": "", "lines=0-1": "", "bytes=a-b": "", "bytes=": "", "nonsense": "",
		"bytes=1000-": "bytes */1000", "bytes=1000-1001": "bytes */1000", "bytes=2000-10": "bytes */1000", "bytes=-0": "bytes */1000",
	} {
		t.Run(header, func(t *testing.T) {
			for _, method := range []string{"GET", "HEAD"} {
				res := b.do(t, method, "/v1/files/content?path=thousand", "", "Range", header)
				require.Equal(t, want, res.header.Get("Content-Range"))
				switch {
				case want == "":
					require.Equal(t, http.StatusOK, res.status)
					require.Equal(t, "1000", res.header.Get("Content-Length"))
				case strings.HasPrefix(want, "bytes */"):
					require.Equal(t, http.StatusRequestedRangeNotSatisfiable, res.status)
					require.Equal(t, map[string]string{"GET": `{"error":"Range not satisfiable"}`, "HEAD": ""}[method], res.body)
				default:
					require.Equal(t, http.StatusPartialContent, res.status)
					var first, last int
					_, err := fmt.Sscanf(want, "bytes %d-%d/", &first, &last)
					require.NoError(t, err)
					require.Equal(t, strconv.Itoa(last-first+1), res.header.Get("Content-Length"))
					if method == "GET" {
						require.Equal(t, strings.Repeat("0123456789", 100)[first:last+1], res.body)
					}
				}
			}
		})
	}
	for _, header := range []string{"bytes=0-", "bytes=0-0", "bytes=-5"} {
		res := b.do(t, "GET", "/v1/files/content?path=empty", "", "Range", header)
		require.Equal(t, http.StatusRequestedRangeNotSatisfiable, res.status, "of an empty file")
		require.Equal(t, "bytes */0", res.header.Get("Content-Range"))
	}
}

func TestFilesUnderAPrefixWithoutEnd(t *testing.T) {
	cwd := t.TempDir()
	large := strings.Repeat("x", 9<<20) // more than any buffer, and than what a run may be sent
	writeFile(t, cwd, "large.bin", large)
	b := serve(t, nil, func(c *runtime.Config) { c.CWD = cwd })
	mux := http.NewServeMux()
	mux.Handle("/ai/", http.StripPrefix("/ai", b.Runtime))
	server := httptest.NewServer(mux)
	defer server.Close()
	b.url = server.URL + "/ai"
	require.Equal(t, large, b.do(t, "GET", "/v1/files/content?path=large.bin", "").body)
	_, entries := b.entriesOf(t, "")
	require.Equal(t, []string{"large.bin"}, named(entries))
}
