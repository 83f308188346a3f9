package filesafe_test

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

type listing struct {
	Path    string `json:"path"`
	Entries []struct {
		Name, Type  string
		Size        *int64
		Mtime       string
		MIME        *string
		Target      *string
		Unspecified any `json:"-"`
	} `json:"entries"`
}

func (a answer) listing(t *testing.T) (l listing) {
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&l), a.body)
	return l
}

// lines formats entries as "name type size mime target".
func (l listing) lines() []string {
	lines := []string{}
	for _, e := range l.Entries {
		line := e.Name + " " + e.Type + " " + strconv.FormatInt(*e.Size, 10)
		if e.MIME != nil {
			line += " mime=" + *e.MIME
		}
		if e.Target != nil {
			line += " target=" + *e.Target
		}
		lines = append(lines, line)
	}
	return lines
}

func TestList(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	for name, row := range map[string]struct {
		query, path string
		want        []string
	}{
		"directory": {"path=sub", "sub", []string{"deep directory 0", "b.txt file 12 mime=text/plain", "out symlink 0",
			"parent symlink 0 target=.",
			"secret.txt file 16 mime=text/plain", "up symlink 12 target=a.txt"}},
		"through a link": {"path=dirlink/deep", "dirlink/deep", []string{"c.txt file 12 mime=text/plain"}},
		"through an absolute link, names as asked for": {"path=absdir/deep&recursive=true", "absdir/deep",
			[]string{"absdir/deep/c.txt file 12 mime=text/plain"}},
		"trailing slash":          {"path=sub/deep/", "sub/deep", []string{"c.txt file 12 mime=text/plain"}},
		"dots and doubled slash":  {"path=./sub/.//deep/.", "sub/deep", []string{"c.txt file 12 mime=text/plain"}},
		"recursive, another word": {"path=deep&recursive=1", "deep", []string{"1 directory 0"}},
		"recursive": {"path=deep&recursive=true", "deep",
			[]string{"deep/1 directory 0", "deep/1/2 directory 0", "deep/1/2/3 directory 0",
				"deep/1/2/3/end.txt file 3 mime=text/plain"}},
		"depth 0": {"path=deep&recursive=true&depth=0", "deep", []string{"deep/1 directory 0"}},
		"depth 1": {"path=deep&recursive=true&depth=1", "deep", []string{"deep/1 directory 0", "deep/1/2 directory 0"}},
		"depth past the end": {"path=deep/1/2&recursive=true&depth=9", "deep/1/2",
			[]string{"deep/1/2/3 directory 0", "deep/1/2/3/end.txt file 3 mime=text/plain"}},
		"depth past all integers": {"path=deep/1/2/3&recursive=true&depth=99999999999999999999", "deep/1/2/3",
			[]string{"deep/1/2/3/end.txt file 3 mime=text/plain"}},
		"depth without recursive": {"path=deep&depth=5", "deep", []string{"1 directory 0"}},
		"first of several":        {"path=deep&path=sub", "deep", []string{"1 directory 0"}},
		"unknown parameter":       {"path=deep&x=y", "deep", []string{"1 directory 0"}},
		"out and in again":        {"path=outback3/deep", "outback3/deep", []string{"c.txt file 12 mime=text/plain"}},
		"links are not gone through": {"path=sub&recursive=true&depth=0", "sub",
			[]string{"sub/deep directory 0", "sub/b.txt file 12 mime=text/plain",
				"sub/out symlink 0", "sub/parent symlink 0 target=.", "sub/secret.txt file 16 mime=text/plain",
				"sub/up symlink 12 target=a.txt"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.list(row.query).listing(t)
			require.Equal(t, row.path, got.Path)
			require.Equal(t, row.want, got.lines())
		})
	}
}

func TestListOfEachKind(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	top := c.list("").listing(t)
	require.Empty(t, top.Path)
	require.Equal(t, top, c.list("path=./").listing(t))
	found, err := os.ReadDir(l.root)
	require.NoError(t, err)
	require.Len(t, top.Entries, len(found))
	lines := top.lines()
	for _, want := range []string{
		"sub directory 0", "a.txt file 12 mime=text/plain", "empty.txt file 0 mime=text/plain",
		".hidden file 6 mime=application/octet-stream",
		`back\slash file 9 mime=application/octet-stream`, "latin\uFFFD.txt file 9 mime=text/plain",
		"ünï côdé \"%.pdf file 7 mime=application/pdf",
		"fifo other 0", "socket other 0", "link symlink 12 target=a.txt", "dirlink symlink 0 target=sub", "self symlink 0 target=.",
		"dots symlink 12 target=sub/b.txt", "abs symlink 12 target=a.txt", "absdir symlink 0 target=sub", "absroot symlink 0 target=.",
		"viaabs symlink 12 target=sub/b.txt", "outback symlink 12 target=a.txt", "outback2 symlink 12 target=a.txt",
		"outback3 symlink 0 target=sub", "tofifo symlink 0 target=fifo", "out symlink 0", "outabs symlink 0", "outdir symlink 0",
		"outlike symlink 0", "outparent symlink 0", "outslash symlink 0", "outback-out symlink 0", "proc symlink 0", "device symlink 0",
		"broken symlink 0", "brokenabs symlink 0", "brokenout symlink 0", "throughfile symlink 0", "loop symlink 0", "loop1 symlink 0",
	} {
		require.Contains(t, lines, want)
	}
	chain := c.list("path=chain").listing(t).lines()
	require.Contains(t, chain, "40 symlink 12 target=a.txt")
	require.Contains(t, chain, "41 symlink 0", "one link more than Linux follows")
}

// TestWalkByOtherNames has names relative to the directory for paths that are not.
func TestWalkByOtherNames(t *testing.T) {
	l := newLayout(t)
	for _, name := range []string{"sub/deep", l.root + "/sub/deep", "sub-b/../sub/deep", l.root + "/dirlink/deep"} {
		names := []string{}
		for e, err := range l.dir.Walk(t.Context(), name, -1) {
			require.NoError(t, err)
			names = append(names, e.Name)
		}
		require.Equal(t, []string{"sub/deep/c.txt"}, names)
	}
}

func TestListTimes(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	path := filepath.Join(l.root, "deep", "1", "2", "3", "end.txt")
	for want, at := range map[string]time.Time{
		"2026-01-02T03:04:05.000000Z": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02T03:04:05.000001Z": time.Date(2026, 1, 2, 3, 4, 5, 1999, time.UTC),
		"1969-12-31T23:59:59.999999Z": time.Unix(-1, 999_999_999),
		"2026-06-30T22:00:00.120000Z": time.Date(2026, 7, 1, 0, 0, 0, 120_000_000, time.FixedZone("", 7200)),
	} {
		require.NoError(t, os.Chtimes(path, at, at))
		require.Equal(t, want, c.list("path=deep/1/2/3").listing(t).Entries[0].Mtime)
	}
	for _, e := range c.list("recursive=true").listing(t).Entries {
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, e.Mtime)
	}
	far := filesafe.FileEntry{Name: "x", Type: "file", ModTime: time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)}
	data, err := json.Marshal(far)
	require.NoError(t, err)
	require.Contains(t, string(data), "9999-12-31T23:59:59.999999Z", "RFC 3339 has four digits")
}

// TestOrder compares the whole response with a sort of all paths.
func TestOrder(t *testing.T) {
	l := newLayout(t)
	for _, path := range []string{"o/a/x", "o/a-b/x", "o/a.txt", "o/a/b/x", "o/a0/x", "o/A/x", "o/a/b-c/x", "o/a/b.x",
		"o/é/x", "o/a b", "o/a/-"} {
		l.write(t, "root/"+path, "")
	}
	c := l.serve(t)
	for _, depth := range []int{0, 1, 2, 100} {
		var want []string
		dirs := map[string]bool{}
		require.NoError(t, filepath.WalkDir(l.root, func(path string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(l.root, path)
			if rel != "." && strings.Count(rel, "/") <= depth {
				rel = strings.ToValidUTF8(rel, "\uFFFD")
				want = append(want, rel)
				dirs[rel] = d.IsDir()
			}
			return err
		}))
		slices.SortFunc(want, func(a, b string) int {
			if dirs[a] != dirs[b] {
				return map[bool]int{true: -1, false: 1}[dirs[a]]
			}
			return cmp.Compare(a, b)
		})
		var got []string
		for _, e := range c.list("recursive=true&depth=" + strconv.Itoa(depth)).listing(t).Entries {
			got = append(got, e.Name)
		}
		require.Equal(t, want, got)
	}
	flat := []string{}
	for _, e := range c.list("path=o").listing(t).Entries {
		flat = append(flat, e.Name)
	}
	require.Equal(t, []string{"A", "a", "a-b", "a0", "é", "a b", "a.txt"}, flat)
}

func TestListErrors(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	for query, want := range map[string]string{
		"path=a.txt":             "400 Not a directory",
		"path=a.txt/":            "400 Not a directory",
		"path=link":              "400 Not a directory",
		"path=fifo":              "400 Not a directory",
		"path=socket":            "400 Not a directory",
		"path=tofifo":            "400 Not a directory",
		"path=nothing":           "404 Directory not found",
		"path=nothing/x":         "404 Directory not found",
		"path=a.txt/x":           "404 Directory not found",
		"path=broken":            "404 Directory not found",
		"path=brokenabs":         "404 Directory not found",
		"path=loop":              "404 Directory not found",
		"path=loop1/x":           "404 Directory not found",
		"path=" + longName + "x": "404 Directory not found",
		"path=brokenout":         "400 Invalid path",
		"path=out":               "400 Invalid path",
		"path=device":            "400 Invalid path",
		"path=..":                "400 Invalid path",
		"path=sub/..":            "400 Invalid path",
		"path=sub/../a.txt":      "400 Invalid path",
		"path=/":                 "400 Invalid path",
		"path=//":                "400 Invalid path",
		"path=/sub":              "400 Invalid path",
		"path=sub%00":            "400 Invalid path",
		"path=%00":               "400 Invalid path",
		"path=C:":                "400 Invalid path",
		`path=c:\sub`:            "400 Invalid path",
		"path=C:/sub":            "400 Invalid path",
		`path=\\server\share`:    "400 Invalid path",
		"path=%zz":               "400 Invalid path",
		"depth=-1":               "400 Invalid depth parameter",
		"depth=":                 "400 Invalid depth parameter",
		"depth=1.0":              "400 Invalid depth parameter",
		"depth=%2B1":             "400 Invalid depth parameter",
		"depth=1e2":              "400 Invalid depth parameter",
		"depth=%201":             "400 Invalid depth parameter",
		"depth=x&recursive=true": "400 Invalid depth parameter",
		"path=nothing&depth=x":   "400 Invalid depth parameter",
	} {
		for _, more := range []string{"", "&recursive=true"} {
			got := c.list(query + more)
			status, message, _ := strings.Cut(want, " ")
			require.Equal(t, status, strconv.Itoa(got.status), query)
			require.Equal(t, `{"error":"`+message+`"}`+"\n", got.body, query)
			require.Equal(t, "application/json", got.header.Get("Content-Type"))
		}
	}
	got := c.ask(http.MethodPost, "/v1/files")
	require.Equal(t, 405, got.status)
	require.Equal(t, "GET, HEAD", got.header.Get("Allow"))
	require.JSONEq(t, `{"error":"Method not allowed"}`, got.body)
	head := c.ask(http.MethodHead, "/v1/files?recursive=true")
	require.Equal(t, 200, head.status)
	require.Equal(t, "application/json", head.header.Get("Content-Type"))
	require.Empty(t, head.header.Get("Content-Length"))
	require.Equal(t, 404, c.ask(http.MethodHead, "/v1/files?path=nothing").status)
	require.JSONEq(t, `{"path":"e","entries":[]}`, func() string {
		require.NoError(t, os.Mkdir(filepath.Join(l.root, "e"), 0o755))
		return c.list("path=e").body
	}())
}

func TestUnicodeAndControlCharactersInNames(t *testing.T) {
	l := newLayout(t)
	names := []string{"q\"uote", "new\nline", "tab\t", "bell\a", "\u2028", "\xc3", "ok\xff\xfeok", "emoji😀", "<&>", "\x7f", "\uFFFD"}
	for _, name := range names {
		l.write(t, "root/n/"+name, "")
		e := filesafe.FileEntry{Name: name, Type: "symlink", Target: name}
		got, err := json.Marshal(e)
		require.NoError(t, err)
		var back struct{ Name, Target string }
		require.NoError(t, json.Unmarshal(got, &back), "%s", got)
		require.Equal(t, strings.ToValidUTF8(name, "\uFFFD"), strings.ReplaceAll(back.Name, "\uFFFD\uFFFD", "\uFFFD"))
		require.Equal(t, back.Name, back.Target)
	}
	require.Len(t, l.serve(t).list("path=n").listing(t).Entries, len(names))
}
