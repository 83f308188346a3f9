package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

// TestWebFetchMarkdown compares whole pages with their Markdown in testdata/html.
func TestWebFetchMarkdown(t *testing.T) {
	b, mux, at := web(t)
	pages, err := filepath.Glob("testdata/html/*.html")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, file := range pages {
		name := strings.TrimSuffix(filepath.Base(file), ".html")
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(file)
			require.NoError(t, err)
			mux.Handle("GET /"+name, answer("text/html; charset=utf-8", string(page)))
			got := strings.ReplaceAll(b.ok(t, "WebFetch", in{"url": at + "/" + name}), at, "http://host")
			want, err := os.ReadFile("testdata/html/" + name + ".md")
			require.NoError(t, err)
			require.Equal(t, string(want), got+"\n")
		})
	}
}

func TestWebFetchMarkdownOf(t *testing.T) {
	b, mux, at := web(t)
	var page atomic.Value
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { answer("text/html", page.Load().(string))(w, r) })
	for name, row := range map[string]struct{ html, want string }{
		"an empty page":          {"", "(the page is empty)"},
		"only scripts":           {"<script>a</script><style>b</style>", "(the page is empty)"},
		"an open script":         {"a<script>b", "a"},
		"misnested formatting":   {"<b>a<i>b</b>c</i>d", "**a*b***cd"},
		"spaces in formatting":   {"a<b> b </b>c", "a **b** c"},
		"empty formatting":       {"a<b></b><i> </i>b", "a b"},
		"formatting over blocks": {"<b><p>a<p>b</b>c", "**a**\n\n**b**\n\nc"},
		"a link over blocks":     {"<a href=/x><p>a<p>b</a>", "[a  \n\\\nb](" + at + "/x)"},
		"a link in a link":       {"<a href=/x>a<a href=/y>b</a>", "[a](" + at + "/x)[b](" + at + "/y)"},
		"a link without text":    {"a<a href=/x></a>b", "ab"},
		"code with backticks":    {"<code>a`b</code> <code>`</code>", "``a`b`` `` ` ``"},
		"a block in code":        {"<code>a<p>b</code>c", "`a`\n\nbc"},
		"preformatted text":      {"<pre>\n a\n\n<b>b</b>&lt;```\n</pre>c", "````\n a\n\nb<```\n````\n\nc"},
		"br in a cell":           {"<table><tr><td>a<br>b<td>c</table>", "| a  <br />b | c |\n|---|---|"},
		"one column":             {"<table><tr><td>a<tr><td>b</table>", "a\n\nb"},
		"text in a table":        {"<table>x<tr><td>a<td>b</table>", "| x |  |\n|---|---|\n| a | b |"},
		"spans":                  {"<table><tr><td rowspan=2>a<td>b<tr><td>c<tr><td colspan=2>d</table>", "| a | b |\n|---|---|\n|  | c |\n| d |  |"},
		"items without a list":   {"<li>a<li>b", "- a\n- b"},
		"lists beyond the limit": {strings.Repeat("<ul><li>", 20) + "a", strings.Repeat("- ", 8) + "a"},
		"a start number":         {"<ol start=9><li>a<li>b</ol>", "09. a\n10. b"},
		"a start that is none":   {"<ol start=x><li>a</ol>", "1. a"},
		"an image in a link":     {"<a href=/x><img src=/y alt=z></a>", "[![z](" + at + "/y)](" + at + "/x)"},
		"entities":               {"&lt;b&gt; &amp;amp; &copy;&nbsp;&#65;&unknown;", "\\<b> &amp; ©\u00a0A&unknown;"},
		"a javascript link":      {"<a href='JavaScript:x()'>a</a>", "a"},
		"parentheses in a link":  {"<a href='/x)'>a</a>", "[a](" + at + "/x%29)"},
		"a second base":          {"<base href=http://a.example/><base href=http://b.example/><a href=x>y</a>", "[y](http://a.example/x)"},
		"blocks in a cell":       {"<table><tr><td><p>a</p><p>b</p><td>c</table>", "| a<br />b | c |\n|---|---|"},
		"a heading of signs":     {"<h1>C#</h1><h2>#</h2>", "# C\\#\n\n## \\#"},
		"the text of a select":   {"a<select><option>b</select>c<textarea>d</textarea>", "ac"},
		"what looks like marks":  {"<p># a<p>1) b<p>&gt; c<p>--- <p>- d<br>+ e", "\\# a\n\n1\\) b\n\n\\> c\n\n\\---\n\n\\- d  \n\\+ e"},
	} {
		t.Run(name, func(t *testing.T) {
			page.Store(row.html)
			require.Equal(t, "URL: "+at+"\n\n"+row.want, b.ok(t, "WebFetch", in{"url": at}))
		})
	}
}

// hostilePages are pages that cost a parser of trees, or a careless converter, far more than their
// size.
func hostilePages() map[string]string {
	fill := func(s string) string { return strings.Repeat(s, (1<<20)/len(s)) }
	long := strings.Repeat("x", 2000)
	var formatting strings.Builder // of which none is equal to another
	for i := range 450 {
		fmt.Fprintf(&formatting, "<b x=%d>", i)
	}
	return map[string]string{
		"less-than signs":      fill("<"),
		"open tags":            fill("<a"),
		"end tags":             fill("</b>"),
		"comments":             fill("<!--"),
		"misnested formatting": fill("<b><i><p>"),
		"formatting":           fill("<b>a</b>"),
		"open formatting":      fill("<b><a href=x><i><p>a"),
		"reopened formatting":  "<p>" + formatting.String() + fill("<p>x"),
		"attributes":           "<a " + fill("a=b ") + ">x",
		"attribute values":     "<a " + fill("href=x ") + ">x",
		"a long attribute":     "<a href='" + fill("x") + "'>x",
		"nested lists":         fill("<ul><li>a"),
		"list items":           strings.Repeat("<ul><li>", 8) + fill("<li>a"),
		"nested quotes":        fill("<blockquote>a"),
		"lines in quotes":      strings.Repeat("<blockquote>", 100) + fill("a<br>"),
		"nested tables":        fill("<table><tr><td>a"),
		"many tables":          fill("<table><tr><td>a</table>"),
		"wide spans":           fill("<table><tr><td colspan=1000 rowspan=10>a</table>"),
		"spans of one table":   "<table>" + fill("<tr><td colspan=9 rowspan=9>a"),
		"a jagged table":       "<table><tr>" + strings.Repeat("<td>a", 50_000) + fill("<tr><td>a"),
		"jagged tables":        fill("<table><tr>" + strings.Repeat("<td>", 100) + strings.Repeat("<tr><td>", 500) + "</table>"),
		"one long cell":        "<table><tr><td>" + strings.Repeat("a", 500_000) + fill("<tr><td>b"),
		"entities":             fill("&lt;"),
		"long entities":        fill("&CounterClockwiseContourIntegral;"),
		"open entities":        fill("&"),
		"marks":                fill("*_`[]("),
		"backticks":            "<pre><code>" + fill("`"),
		"code elements":        fill("<code>`"),
		"spaces":               fill("<span> </span>"),
		"breaks":               fill("<br>"),
		"a long base":          "<base href=http://a.example/" + long + ">" + fill("<a href=x>a</a>"),
		"deep elements":        fill("<div>"),
		"svg":                  fill("<svg>"),
		"scripts":              fill("<script>"),
		"titles":               fill("<title>"),
		"headings":             fill("<h1>"),
		"images":               fill("<img src=x alt=y>"),
		"zero bytes":           fill("\x00"),
		"preformatted":         fill("<pre>a"),
	}
}

// A page of 1 MiB takes time and memory in proportion to its size, for any content.
func TestWebFetchBoundsTheConversion(t *testing.T) {
	b, mux, at := web(t)
	for name, page := range hostilePages() {
		t.Run(name, func(t *testing.T) {
			path := "/" + strings.ReplaceAll(name, " ", "-")
			mux.Handle("GET "+path, answer("text/html; charset=utf-8", page[:min(len(page), 1<<20)]))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			res, err := b.call(t.Context(), t, "WebFetch", in{"url": at + path})
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			require.LessOrEqual(t, len(res.Output), 100_000)
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d MiB allocated", allocated>>20)
			require.Less(t, allocated, uint64(120<<20))
		})
	}
}

func TestWebFetchOfAPageWithTooManyElements(t *testing.T) {
	b, mux, at := web(t)
	mux.Handle("GET /", answer("text/html", "<h1>a</h1>"+strings.Repeat("<p>b", 30_000)))
	res, err := b.call(t.Context(), t, "WebFetch", in{"url": at})
	require.NoError(t, err)
	require.True(t, res.Truncated)
	require.Contains(t, res.Output, "# a\n\nb")
	require.Contains(t, res.Output, "\n[The page has more than 40000 elements. The rest was not read.]")
}

// atEnd calls a function when a body was read to its end.
type atEnd struct {
	http.RoundTripper
	call func()
}

func (a atEnd) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = endBody{res.Body, a.call}
	}
	return res, err
}

type endBody struct {
	io.ReadCloser
	call func()
}

func (b endBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.call()
	}
	return n, err
}

// The end of a call ends the conversion of its page too.
func TestWebFetchConversionEndsWithItsContext(t *testing.T) {
	stop := errors.New("the run was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	server := httptest.NewServer(answer("text/html; charset=utf-8", strings.Repeat("<p>a", 250_000)))
	t.Cleanup(server.Close)
	b := setup(t, func(c *builtin.Config) {
		c.Client = &http.Client{Transport: atEnd{server.Client().Transport, func() { cancel(stop) }}}
	})
	_, err := b.call(ctx, t, "WebFetch", in{"url": server.URL})
	require.ErrorIs(t, err, stop)
}
