package filesafe_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
)

// FuzzPath requests a path, in a layout with a link of any text, and compares the result with the
// operating system.
func FuzzPath(f *testing.F) {
	for _, path := range []string{"a.txt", "sub//b.txt", "../outside/secret.txt", "dirlink/../a.txt", "absdir/b.txt",
		"chain/40", "fuzz/x", "a\x00b",
		"./././fuzz", "sub/../../root/a.txt", "/etc/passwd", "loop/x", "outback3/deep/c.txt", "fuzz/../a.txt", "C:\\x", "\\\\x"} {
		for _, link := range []string{"a.txt", "..", "/", "../outside", "sub/deep", "fuzz", "self/self/sub",
			"../../../../../../../../etc"} {
			f.Add(path, link)
		}
	}
	l := newLayout(f)
	api := &filesafe.Handlers{Dir: l.dir}
	f.Fuzz(func(t *testing.T, path, link string) {
		at := l.root + "/fuzz"
		_ = os.Remove(at)
		if os.Symlink(link, at) != nil {
			return
		}
		if strings.Contains(path+link, "proc") || strings.Contains(path+link, "dev") || len(path) > 2000 || len(link) > 2000 {
			return // files there change, and only the system limits the length of a whole path
		}
		file, err := l.dir.Open(path)
		if strings.IndexByte(path, 0) < 0 {
			text, inside, want := l.reference(path)
			if errors.Is(err, filesafe.ErrOutside) {
				require.False(t, inside)
			} else {
				require.Equal(t, class(want), class(err), "%v, %v", want, err)
			}
			if err == nil {
				require.True(t, inside)
				read := make([]byte, 100)
				n, _ := file.Read(read)
				require.Equal(t, text, string(read[:n]))
			}
		} else {
			require.Error(t, err)
		}
		if err == nil {
			require.NoError(t, file.Close())
		}
		for _, h := range []http.HandlerFunc{api.Content, api.List, l.dir.Handler().ServeHTTP} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.URL = &url.URL{Path: "/" + path, RawQuery: url.Values{"path": {path}}.Encode()}
			h(w, r)
			require.NotContains(t, w.Body.String(), secret)
			require.NotEqual(t, 500, w.Code)
		}
	})
}

var oneRange = regexp.MustCompile(`^(?i:bytes)=(?:(\d+)-(\d*)|-(\d+))$`)

// FuzzRange compares a range with the meaning of the contract's forms.
func FuzzRange(f *testing.F) {
	for _, header := range []string{"bytes=0-1", "bytes=5-", "bytes=-5", "bytes=-0", "bytes=5-2", "bytes=100-2",
		"bytes=0-0,1-1", "bytes=-", "x=0-1",
		"bytes=18446744073709551617-", "bytes=-9223372036854775808", "bytes=0--1", "BYTES=1-9999999999999999999"} {
		for _, size := range []uint16{0, 1, 10, 1000} {
			f.Add(header, size)
		}
	}
	l := newLayout(f)
	api := &filesafe.Handlers{Dir: l.dir}
	f.Fuzz(func(t *testing.T, header string, size uint16) {
		text := strings.Repeat("0123456789", int(size)/10+1)[:size]
		l.write(t, "root/ranged", text)
		r := httptest.NewRequest(http.MethodGet, "/?path=ranged", nil)
		r.Header.Set("Range", header)
		w := httptest.NewRecorder()
		api.Content(w, r)

		status, want := 200, text
		if m := oneRange.FindStringSubmatch(header); m != nil {
			number := func(s string) int {
				n, err := strconv.Atoi(s)
				if err != nil {
					return 1 << 40 // after the end of every file here
				}
				return n
			}
			if m[3] != "" {
				status, want = 206, text[max(0, int(size)-number(m[3])):]
			} else if first, last := number(m[1]), number(m[2]); first >= int(size) {
				status, want = 416, ""
			} else if first <= last || m[2] == "" {
				status, want = 206, text[first:min(last, int(size)-1)+1]
			}
			if want == "" && status == 206 {
				status = 416
			}
		}
		require.Equal(t, status, w.Code, header)
		if status != 416 {
			require.Equal(t, want, w.Body.String())
		}
	})
}
