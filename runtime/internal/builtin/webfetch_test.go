package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

// web starts a server, and returns a box whose WebFetch can access only that server on 127.0.0.1.
func web(t testing.TB) (box, *http.ServeMux, string) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client := outbound.Public(func(addr netip.Addr) bool { return addr == netip.MustParseAddr("127.0.0.1") })
	t.Cleanup(client.CloseIdleConnections)
	return setup(t, func(c *builtin.Config) { c.Client = client }), mux, server.URL
}

func answer(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		_, _ = io.WriteString(w, body)
	}
}

func TestWebFetch(t *testing.T) {
	b, mux, at := web(t)
	for i, row := range []struct{ name, contentType, body, want string }{
		{"HTML", "text/html; charset=utf-8", `<!doctype html><html><head><title> A
			<b>page </title><style>p{}</style></head><body><script>x()</script><h1>Head</h1><p>Some <b>bold</b> <a href="/there?a=b">link</a>.</p>
			<ul><li>one<li>two</ul><img alt="dot" src="data:image/png;base64,AAAA"></body></html>`,
			"Title: A <b>page\n\n# Head\n\nSome **bold** [link](" + at + "/there?a=b).\n\n- one\n- two"},
		{"table", "text/html", "<table><tr><th>a<th>b<tr><td>1<td>2</table>", "\n| a | b |\n|---|---|\n| 1 | 2 |"},
		{"base", "text/html", `<base href="https://example.com/x/"><a href="y">z</a>`, "\n[z](https://example.com/x/y)"},
		{"plain", "text/plain; charset=utf-8", "a <b>\n", "\na <b>\n"},
		{"JSON", "application/json", `{"a": "<p>"}`, "\n" + `{"a": "<p>"}`},
		{"JSON of a kind", "application/problem+json", `{}`, "\n{}"},
		{"XML", "application/xml", "<a/>", "\n<a/>"},
		{"feed", "application/rss+xml", "<rss/>", "\n<rss/>"},
		{"no type, HTML", "", "<!doctype html><p>a</p>", "\na"},
		{"no type, text", "", "just text", "\njust text"},
		{"empty", "text/html", "", "\n(the page is empty)"},
		{"Latin-1 by header", "text/plain; charset=iso-8859-1", "caf\xe9", "\ncafé"},
		{"Latin-1 by guess", "text/html", "<p>caf\xe9</p>", "\ncafé"},
		{"Japanese by meta", "text/html", "<meta charset=shift_jis><p>\x93\xfa\x96{</p>", "\n日本"},
		{"UTF-16 by mark", "text/plain", "\xff\xfea\x00\xe9\x00", "\naé"},
		{"UTF-8 far behind", "text/plain", strings.Repeat("a", 2000) + "é", "\n" + strings.Repeat("a", 2000) + "é"},
		{"wrong charset", "text/plain; charset=utf-8", "a\xffb\x00", "\na\uFFFDb\uFFFD"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := fmt.Sprintf("/page/%d", i)
			mux.Handle("GET "+path, answer(row.contentType, row.body))
			require.Equal(t, "URL: "+at+path+"\n"+row.want, b.ok(t, "WebFetch", in{"url": at + path}))
		})
	}
}

func TestWebFetchIntroducesItself(t *testing.T) {
	b, mux, at := web(t)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.UserAgent()) })
	require.Equal(t, "URL: "+at+"\n\nagenthost/1", b.ok(t, "WebFetch", in{"url": at}))
	require.False(t, b.tools["WebFetch"].Spec().ReadOnly)
}

func TestWebFetchRejects(t *testing.T) {
	b, mux, at := web(t)
	mux.Handle("GET /image", answer("image/png", "\x89PNG"))
	mux.Handle("GET /bytes", answer("", "\x00\x01\x02\x03"))
	mux.Handle("GET /nonsense", answer("nonsense;;", "a"))
	port := at[strings.LastIndexByte(at, ':'):]
	for _, row := range []struct{ name, url, want string }{
		{"nothing", "", "must begin with http://"},
		{"a file", "file:///etc/passwd", "must begin with http://"},
		{"no host", "http:///x", "must begin with http://"},
		{"malformed", "http://a b/", "the URL is malformed"},
		{"a password", "http://user:pw@example.com/", "must not contain a user name"},
		{"too long", "http://example.com/" + strings.Repeat("x", 9000), "at most"},
		{"private", "http://10.0.0.1/", "fetch http://10.0.0.1/: the address is private or reserved, and only public addresses are allowed"},
		{"a name of this host", "http://[::1]" + port, "the address is private"},
		{"metadata", "http://169.254.169.254/latest/", "the address is private"},
		{"image", at + "/image", `4 bytes of "image/png", which is not text`},
		{"bytes", at + "/bytes", `4 bytes of "application/octet-stream"`},
		{"type that is none", at + "/nonsense", "which is not text"},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Contains(t, b.fails(t, "WebFetch", in{"url": row.url}), row.want)
		})
	}
	t.Run("by default", func(t *testing.T) {
		require.Contains(t, setup(t).fails(t, "WebFetch", in{"url": at}), "the address is private")
	})
}

// Only redirects to the same host and port are followed: the permission of the call applies only to
// those.
func TestWebFetchRedirects(t *testing.T) {
	b, mux, at := web(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	mux.Handle("GET /end", answer("text/plain", "end"))
	mux.HandleFunc("GET /to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("url"), http.StatusFound)
	})
	mux.HandleFunc("GET /circle", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/circle", http.StatusFound) })
	port := at[strings.LastIndexByte(at, ':'):]
	for name, to := range map[string]string{
		"a path": "/end", "the whole URL": at + "/end", "two of them": "/to?url=/end", "the scheme of this URL": at[len("http:"):] + "/end",
	} {
		t.Run(name, func(t *testing.T) {
			res := b.ok(t, "WebFetch", in{"url": at + "/to?url=" + to})
			require.Equal(t, "URL: "+at+"/end\n\nend", res)
		})
	}
	for name, to := range map[string]string{
		"another host":               "http://10.0.0.1/x",
		"another name of this host":  "http://localhost" + port + "/end",
		"another port":               elsewhere.URL + "/end",
		"the default port":           "http://127.0.0.1/end",
		"another scheme":             "https://127.0.0.1/end",
		"another host with www":      "http://www.127.0.0.1" + port + "/end",
		"a sibling in a second step": "/to?url=" + elsewhere.URL + "/end",
	} {
		t.Run(name, func(t *testing.T) {
			asked := at + "/to?url=" + to
			require.Equal(t, asked+" redirects to another host or port: "+strings.TrimPrefix(to, "/to?url=")+"\nCall WebFetch with that URL to fetch it.",
				b.ok(t, "WebFetch", in{"url": asked}))
		})
	}
	require.Contains(t, b.fails(t, "WebFetch", in{"url": at + "/circle"}), "more than 5 redirects")
}

func TestWebFetchFailures(t *testing.T) {
	b, mux, at := web(t)
	mux.HandleFunc("GET /html", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<h1>Not here</h1>"+strings.Repeat("<p>x</p>", 10_000))
	})
	mux.HandleFunc("GET /image", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		w.WriteHeader(599)
	})
	res, err := b.call(t.Context(), t, "WebFetch", in{"url": at + "/html"})
	require.NoError(t, err)
	require.True(t, res.IsError)
	require.True(t, res.Truncated)
	require.True(t, strings.HasPrefix(res.Output, at+"/html returned 404 Not Found.\n\n# Not here\n"), res.Output)
	require.Less(t, len(res.Output), 2200)
	res, err = b.call(t.Context(), t, "WebFetch", in{"url": at + "/image"})
	require.NoError(t, err)
	require.True(t, res.IsError)
	require.Equal(t, at+"/image returned 599.\n\n", res.Output)
}

func TestWebFetchBoundsThePage(t *testing.T) {
	b, mux, at := web(t)
	mux.Handle("GET /long", answer("text/plain", "begin"+strings.Repeat("x", 200_000)+"end"))
	mux.HandleFunc("GET /endless", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, strings.Repeat("y", 10_000))
		}
	})
	output := b.cut(t, "WebFetch", in{"url": at + "/long"})
	require.LessOrEqual(t, len(output), 100_000)
	require.Contains(t, output, "\n\nbegin")
	require.True(t, strings.HasSuffix(output, "xend"))
	require.Contains(t, output, "bytes cut]")
	output = b.cut(t, "WebFetch", in{"url": at + "/endless"})
	require.LessOrEqual(t, len(output), 100_000)
	require.True(t, strings.HasSuffix(output, "y\n[The page is longer than 1 MiB. The rest was not read.]"))
}

// counted counts the bytes that are read from response bodies.
type counted struct {
	http.RoundTripper
	read *atomic.Int64
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = countedBody{res.Body, c.read}
	}
	return res, err
}

type countedBody struct {
	io.ReadCloser
	read *atomic.Int64
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	return n, err
}

// WebFetch reads one byte more than 1 MiB, to detect a longer page.
func TestWebFetchReadsOneMiB(t *testing.T) {
	const most = 1 << 20
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var read atomic.Int64
	b := setup(t, func(c *builtin.Config) {
		c.Client = &http.Client{Transport: counted{server.Client().Transport, &read}}
		c.MaxOutput = 2 * most
	})
	for name, row := range map[string]struct {
		size, read int64
		whole      bool
	}{
		"a page of that size":       {most, most, true},
		"one that is a byte longer": {most + 1, most + 1, false},
		"one of 8 MiB":              {8 * most, most + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := fmt.Sprintf("/%d", row.size)
			mux.Handle("GET "+path, answer("text/plain", strings.Repeat("x", int(row.size))))
			read.Store(0)
			res, err := b.call(t.Context(), t, "WebFetch", in{"url": server.URL + path})
			require.NoError(t, err)
			require.Equal(t, row.read, read.Load(), "bytes read")
			require.Equal(t, row.whole, !res.Truncated)
			require.Equal(t, most, strings.Count(res.Output, "x"))
		})
	}
}

func TestWebFetchEndsWithItsContext(t *testing.T) {
	b, mux, at := web(t)
	stop := errors.New("the run was cancelled")
	for _, path := range []string{"/silent", "/slow"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if path == "/slow" {
				_, _ = io.WriteString(w, "a part")
				_ = http.NewResponseController(w).Flush()
			}
			cancel(stop)
			<-r.Context().Done()
		})
		_, err := b.call(ctx, t, "WebFetch", in{"url": at + path})
		require.ErrorIs(t, err, stop)
	}
}
