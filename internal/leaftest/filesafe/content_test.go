package filesafe_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestContent(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))
	require.NoError(t, os.Chtimes(filepath.Join(l.root, "a.txt"), at, at))
	for name, row := range map[string]struct{ text, mime, file string }{
		"a.txt":            {"content of a", "text/plain", "a.txt"},
		"./sub//b.txt":     {"content of b", "text/plain", "b.txt"},
		"empty.txt":        {"", "text/plain", "empty.txt"},
		"link":             {"content of a", "application/octet-stream", "link"},
		"abs":              {"content of a", "application/octet-stream", "abs"},
		"absdir/b.txt":     {"content of b", "text/plain", "b.txt"},
		"outback":          {"content of a", "application/octet-stream", "outback"},
		"outback3/b.txt":   {"content of b", "text/plain", "b.txt"},
		"chain/40":         {"content of a", "application/octet-stream", "40"},
		"a..b":             {"two dots", "application/octet-stream", "a..b"},
		"...":              {"three dots", "application/octet-stream", "..."},
		".hidden":          {"hidden", "application/octet-stream", ".hidden"},
		`back\slash`:       {"backslash", "application/octet-stream", "back%5Cslash"},
		"ünï côdé \"%.pdf": {"unicode", "application/pdf", "%C3%BCn%C3%AF%20c%C3%B4d%C3%A9%20%22%25.pdf"},
		"latin\xff.txt":    {"not UTF-8", "text/plain", "latin%EF%BF%BD.txt"},
		longName:           {"long name", "application/octet-stream", longName},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := c.ask(method, "/v1/files/content?path="+strings.NewReplacer("%", "%25", " ", "%20", "\"", "%22", "\xff",
				"%ff").Replace(name))
			require.Equal(t, 200, got.status, name)
			require.Equal(t, map[string]string{"GET": row.text, "HEAD": ""}[method], got.body)
			require.Equal(t, row.mime, got.header.Get("Content-Type"), name)
			require.Equal(t, "attachment; filename*=UTF-8''"+row.file, got.header.Get("Content-Disposition"))
			require.Equal(t, strconv.Itoa(len(row.text)), got.header.Get("Content-Length"))
			require.Equal(t, "bytes", got.header.Get("Accept-Ranges"))
			require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
			require.Empty(t, got.header.Get("Content-Range"))
			if row.text == "content of a" {
				require.Equal(t, "Fri, 02 Jan 2026 02:04:05 GMT", got.header.Get("Last-Modified"))
			}
		}
	}
}

func TestContentTypes(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	for name, want := range map[string]string{
		"x.ts": "text/typescript", "x.mts": "text/typescript", "x.MD": "text/markdown", "x.tar.gz": "application/gzip",
		"x.JSON": "application/json",
		"x.":     "application/octet-stream", "x.unknown": "application/octet-stream", ".json": "application/octet-stream",
		"x.go":   "text/x-go",
		"x.html": "text/html", "x.svg": "image/svg+xml", "x.yaml": "application/yaml", "Makefile": "application/octet-stream",
		"x.PnG": "image/png",
	} {
		l.write(t, "root/types/"+name, "")
		require.Equal(t, want, c.content("types/"+name).header.Get("Content-Type"), name)
	}
	for _, e := range c.list("path=types").listing(t).Entries {
		require.Equal(t, c.content("types/"+e.Name).header.Get("Content-Type"), *e.MIME)
	}
}

func TestContentErrors(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	for name, want := range map[string]string{
		"":                  "400 Not a file",
		".":                 "400 Not a file",
		"./":                "400 Not a file",
		"sub":               "400 Not a file",
		"sub/":              "400 Not a file",
		"dirlink":           "400 Not a file",
		"absroot":           "400 Not a file",
		"fifo":              "400 Not a file",
		"tofifo":            "400 Not a file",
		"socket":            "400 Not a file",
		"nothing":           "404 File not found",
		"nothing/x":         "404 File not found",
		"a.txt/":            "404 File not found",
		"a.txt/.":           "404 File not found",
		"a.txt/x":           "404 File not found",
		"filelink-slash":    "404 File not found",
		"throughfile":       "404 File not found",
		"throughfileup":     "404 File not found",
		"broken":            "404 File not found",
		"brokendir":         "404 File not found",
		"brokenabs":         "404 File not found",
		"brokenmid":         "404 File not found",
		"loop":              "404 File not found",
		"loop1":             "404 File not found",
		"chain/41":          "404 File not found",
		longName + "x":      "404 File not found",
		"brokenout":         "400 Invalid path",
		"brokenoutabs":      "400 Invalid path",
		"outthroughfile":    "400 Invalid path",
		"out":               "400 Invalid path",
		"outdir":            "400 Invalid path",
		"outdir/nothing":    "400 Invalid path",
		"device":            "400 Invalid path",
		"..":                "400 Invalid path",
		"sub/../a.txt":      "400 Invalid path",
		"sub/..":            "400 Invalid path",
		"/a.txt":            "400 Invalid path",
		"//a.txt":           "400 Invalid path",
		l.root + "/a.txt":   "400 Invalid path",
		"a.txt\x00":         "400 Invalid path",
		"\x00":              "400 Invalid path",
		"a.txt\x00.png":     "400 Invalid path",
		"C:":                "400 Invalid path",
		`C:\a.txt`:          "400 Invalid path",
		"z:/a.txt":          "400 Invalid path",
		"c:a.txt":           "400 Invalid path",
		`\\server\share\x`:  "400 Invalid path",
		`\\?\C:\a.txt`:      "400 Invalid path",
		`..\a.txt`:          "404 File not found", // an ordinary name on Unix
		`\a.txt`:            "404 File not found",
		"1:x":               "404 File not found",
		"%2e%2e/secret.txt": "404 File not found", // decoded only once
	} {
		got := c.content(name, "Range", "bytes=0-1")
		status, message, _ := strings.Cut(want, " ")
		require.Equal(t, status, strconv.Itoa(got.status), "%q", name)
		require.Equal(t, `{"error":"`+message+`"}`+"\n", got.body, "%q", name)
		require.Equal(t, "application/json", got.header.Get("Content-Type"))
		require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
		require.Empty(t, got.header.Get("Content-Disposition"))
	}
	require.Equal(t, 400, c.ask(http.MethodGet, "/v1/files/content").status)
	require.Equal(t, 400, c.ask(http.MethodGet, "/v1/files/content?path=a.txt%zz").status)
	require.Equal(t, 405, c.ask(http.MethodDelete, "/v1/files/content?path=a.txt").status)
	got := c.ask(http.MethodHead, "/v1/files/content?path=nothing")
	require.Equal(t, 404, got.status)
	require.Empty(t, got.body)
}

func TestRanges(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	text := strings.Repeat("0123456789", 100)
	l.write(t, "root/1000.txt", text)
	for header, want := range map[string]string{ // "" is the whole file, 416 the error, anything else the part
		"bytes=0-0":                         "0-0",
		"bytes=0-499":                       "0-499",
		"bytes=500-":                        "500-999",
		"bytes=-1":                          "999-999",
		"bytes=-300":                        "700-999",
		"bytes=-1000":                       "0-999",
		"bytes=-1001":                       "0-999",
		"bytes=-99999999999999999999999":    "0-999",
		"bytes=0-":                          "0-999",
		"bytes=0-999":                       "0-999",
		"bytes=0-1000":                      "0-999",
		"bytes=999-99999999999999999999999": "999-999",
		"bytes=9223372036854775807-9223372036854775807":    "416",
		"bytes=0-9223372036854775807":                      "0-999",
		"bytes=00000000000000000000000000000007-000000008": "7-8",
		"BYTES=1-2":                      "1-2",
		"bytes=1000-":                    "416",
		"bytes=1000-1000":                "416",
		"bytes=2000-10":                  "416",
		"bytes=99999999999999999999999-": "416",
		"bytes=-0":                       "416",
		"bytes=-000":                     "416",
		"bytes=5-2":                      "",
		"bytes=0-1,2-3":                  "",
		"bytes=0-1,":                     "",
		"bytes=,":                        "",
		"bytes=":                         "",
		"bytes=-":                        "",
		"bytes=--1":                      "",
		"bytes=-1-2":                     "",
		"bytes=1":                        "",
		"bytes=a-b":                      "",
		"bytes=1-b":                      "",
		"bytes=0x1-0x2":                  "",
		"bytes=+1-2":                     "",
		"bytes=1.0-2":                    "",
		"bytes= 1-2":                     "",
		"bytes =1-2":                     "",
		"bytes":                          "",
		"items=0-1":                      "",
		"0-1":                            "",
		"bytes:0-1":                      "",
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := c.ask(method, "/v1/files/content?path=1000.txt", "Range", header)
			switch want {
			case "":
				require.Equal(t, 200, got.status, header)
				require.Equal(t, "1000", got.header.Get("Content-Length"))
				require.Empty(t, got.header.Get("Content-Range"))
				require.Contains(t, []string{text, ""}, got.body)
			case "416":
				require.Equal(t, 416, got.status, header)
				require.Equal(t, "bytes */1000", got.header.Get("Content-Range"))
				require.Contains(t, []string{`{"error":"Range not satisfiable"}` + "\n", ""}, got.body)
				require.Empty(t, got.header.Get("Content-Disposition"))
			default:
				first, last, _ := strings.Cut(want, "-")
				from, to := must(strconv.Atoi(first)), must(strconv.Atoi(last))
				require.Equal(t, 206, got.status, header)
				require.Equal(t, "bytes "+want+"/1000", got.header.Get("Content-Range"))
				require.Equal(t, strconv.Itoa(to-from+1), got.header.Get("Content-Length"))
				require.Contains(t, []string{text[from : to+1], ""}, got.body)
				require.Equal(t, "text/plain", got.header.Get("Content-Type"))
			}
			require.Equal(t, method == http.MethodHead, got.body == "", header)
		}
	}
	twice := c.content("1000.txt", "Range", "bytes=0-1", "Range", "bytes=2-3")
	require.Equal(t, 200, twice.status)
	for header, want := range map[string]int{"bytes=0-": 416, "bytes=0-0": 416, "bytes=-5": 416, "bytes=-0": 416,
		"bytes=5-2": 416, "bytes=x": 200, "bytes=0-1,2-3": 200} {
		got := c.content("empty.txt", "Range", header)
		require.Equal(t, want, got.status, header)
		if want == 416 {
			require.Equal(t, "bytes */0", got.header.Get("Content-Range"))
		}
	}
}

func TestConditions(t *testing.T) {
	l := newLayout(t)
	c := l.serve(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	require.NoError(t, os.Chtimes(filepath.Join(l.root, "a.txt"), at, at))
	first := c.content("a.txt")
	etag, modified := first.header.Get("ETag"), first.header.Get("Last-Modified")
	require.Regexp(t, `^"[0-9a-z-]+"$`, etag)
	before, after := "Fri, 02 Jan 2026 03:04:04 GMT", "Fri, 02 Jan 2026 03:04:06 GMT"
	for name, row := range map[string]struct {
		status  int
		headers []string
	}{
		"none match, same":                {304, []string{"If-None-Match", etag}},
		"none match, weak":                {304, []string{"If-None-Match", "W/" + etag}},
		"none match, in a list":           {304, []string{"If-None-Match", `"a", W/"b,c" ,` + etag}},
		"none match, in a second header":  {304, []string{"If-None-Match", `"a"`, "If-None-Match", etag}},
		"none match, any":                 {304, []string{"If-None-Match", "*"}},
		"none match, another":             {200, []string{"If-None-Match", `"a"`}},
		"none match, no tag":              {200, []string{"If-None-Match", strings.Trim(etag, `"`)}},
		"none match, broken":              {200, []string{"If-None-Match", `"`}},
		"none match beats a date":         {200, []string{"If-None-Match", `"a"`, "If-Modified-Since", after}},
		"modified since, same":            {304, []string{"If-Modified-Since", modified}},
		"modified since, later":           {304, []string{"If-Modified-Since", after}},
		"modified since, earlier":         {200, []string{"If-Modified-Since", before}},
		"modified since, no date":         {200, []string{"If-Modified-Since", "yesterday"}},
		"not modified beats a range":      {304, []string{"If-None-Match", etag, "Range", "bytes=99-"}},
		"match":                           {200, []string{"If-Match", etag}},
		"match, any":                      {200, []string{"If-Match", "*"}},
		"match, weak":                     {412, []string{"If-Match", "W/" + etag}},
		"match, another":                  {412, []string{"If-Match", `"a"`}},
		"unmodified since, same":          {200, []string{"If-Unmodified-Since", modified}},
		"unmodified since, earlier":       {412, []string{"If-Unmodified-Since", before}},
		"match beats a date":              {200, []string{"If-Match", etag, "If-Unmodified-Since", before}},
		"if-range, same":                  {206, []string{"Range", "bytes=0-1", "If-Range", etag}},
		"if-range, weak":                  {200, []string{"Range", "bytes=0-1", "If-Range", "W/" + etag}},
		"if-range, another":               {200, []string{"Range", "bytes=0-1", "If-Range", `"a"`}},
		"if-range, same date":             {206, []string{"Range", "bytes=0-1", "If-Range", modified}},
		"if-range, later date":            {200, []string{"Range", "bytes=0-1", "If-Range", after}},
		"if-range, another, past the end": {200, []string{"Range", "bytes=99-", "If-Range", `"a"`}},
		"if-range without a range":        {200, []string{"If-Range", `"a"`}},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := c.ask(method, "/v1/files/content?path=a.txt", row.headers...)
			require.Equal(t, row.status, got.status, name)
			require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
			switch row.status {
			case 412:
				require.Contains(t, []string{`{"error":"Precondition failed"}` + "\n", ""}, got.body)
			case 304:
				require.Empty(t, got.body)
				require.Equal(t, modified, got.header.Get("Last-Modified"))
				require.Empty(t, got.header.Get("Content-Type"))
				fallthrough
			default:
				require.Equal(t, etag, got.header.Get("ETag"))
			}
		}
	}
	// The tag changes with the size, and with the time below one second.
	require.NoError(t, os.Chtimes(filepath.Join(l.root, "a.txt"), at, at.Add(1)))
	require.NotEqual(t, etag, c.content("a.txt").header.Get("ETag"))
	l.write(t, "root/a.txt", "another size")
	require.NoError(t, os.Truncate(filepath.Join(l.root, "a.txt"), 3))
	require.NoError(t, os.Chtimes(filepath.Join(l.root, "a.txt"), at, at))
	require.NotEqual(t, etag, c.content("a.txt").header.Get("ETag"))
}
