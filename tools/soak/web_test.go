package soak_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fill repeats a text to the size of the largest page.
func fill(part string) string { return strings.Repeat(part, mib/len(part)) }

var hostilePages = sync.OnceValue(func() []string {
	return []string{
		fill("<b><i><u><s><em><p>"), "<p>" + strings.Repeat("<b><i><font>", 2000) + fill("<p>x</p>"), fill("<div>"), fill("<a href=x><table>"), fill("<table><tr><td>"), fill("<ul><li>"),
		fill("<blockquote><pre>"), fill("&amp;&#x10FFFF;&notit;"), fill("&"), `<a ` + fill(`href="x" `) + `>`, `<a href="` + fill("x") + `">x</a>`, `<img alt="` + fill("&quot;"),
		fill("<title>"), fill("<!--"), fill("<script><!--<script>"), "<plaintext>" + fill("</plaintext>"), fill("</p></b>"), fill("<svg><math><![CDATA["), fill("\x00\xff\xfe"),
		fill("<h1><br><hr>"), fill("<td>|\n"), fill("<ol start=99999999999><li>"), fill("`*_[]()#"), fill("<meta charset=utf-16>"), fill("<"), fill("\u202e\u0301"),
		"<table><tr>" + fill("<td>x"), strings.Repeat("<blockquote>", 5000) + fill("x<p>"), fill("<pre>\n"),
	}
})

var charsets = []string{"utf-8", "utf-16", "utf-16be", "iso-2022-jp", "hz-gb-2312", "gb18030", "replacement", "x-user-defined", "big5", "euc-kr", "\"", "windows-1252"}

func gzipped(size int64) string {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	_, _ = io.CopyN(w, zeros{}, size)
	_ = w.Close()
	return b.String()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func pages(t *testing.T) attack {
	bomb := gzipped(256 * mib)
	site := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		w.Header().Set("Content-Type", "text/html; charset="+charsets[n/len(hostilePages())%len(charsets)])
		switch {
		case r.URL.Path == "/hello":
			_, _ = io.WriteString(w, "<p>hello")
		case n%50 == 49:
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, bomb)
		case n%50 == 48:
			http.Redirect(w, r, fmt.Sprintf("/%d?%s", n, r.URL.RawQuery+"x"), http.StatusFound)
		case n%50 == 47: // a byte at a time
			for tick := time.NewTicker(50 * time.Millisecond); r.Context().Err() == nil; <-tick.C {
				_, _ = io.WriteString(w, "<b>")
				_ = http.NewResponseController(w).Flush()
			}
		default:
			_, _ = io.WriteString(w, hostilePages()[n%len(hostilePages())])
		}
	}))
	call := func(path string) string { return `Fetch {"url":"` + site + path + `"}` }
	s := start(t, t.TempDir(), nil, filepath.Join(binaries, "pages"), upstream(t))
	return attack{server: s, pause: 250 * time.Millisecond,
		step: func(ctx context.Context, n int) error {
			return s.expect(ctx, "bot", call(fmt.Sprintf("/%d", n)), "result: ")
		},
		other: func(ctx context.Context) error { return s.expect(ctx, "bot", call("/hello"), "hello") },
	}
}

// hostileReplies are the bodies of an upstream, in the format of either protocol.
var hostileReplies = sync.OnceValue(func() []string {
	var all []string
	for _, data := range []string{
		strings.Repeat("[", mib) + strings.Repeat("]", mib), `{"type":` + strings.Repeat(`{"a":`, mib) + `1` + strings.Repeat("}", mib) + `}`,
		strings.Repeat("x", 9*mib), `{"choices":[` + strings.Repeat(`{"delta":{"content":"x"}},`, 100_000) + `{}]}`, "", "null", `{"choices":[{"delta":7}]}`,
		`{"choices":[{"delta":{"tool_calls":[` + strings.Repeat(`{"index":1e400,"function":{"name":"x","arguments":"{"}},`, 10_000) + `{}]}}]}`,
		`{"type":"message_start","message":{"usage":{"input_tokens":-1e99,"output_tokens":1e400}}}`,
		`{"type":"content_block_delta","index":99999999999999999999,"delta":{"type":"text_delta","text":"` + strings.Repeat(`\ud800`, 100_000) + `"}}`,
		`{"error":{"message":"` + strings.Repeat("<b>", mib) + `","type":{}}}`, `{"type":"error","type":"ping","error":[[[]]]}`,
	} {
		all = append(all, "data: "+data+"\n\n", "event: "+data+"\n", data)
	}
	delta := func(n int, part string) string { return strings.Repeat("data: "+part+"\n\n", n) }
	return append(all,
		delta(50_000, `{"choices":[{"index":0,"delta":{"content":"xxxxxxxxxx"}}]}`), delta(50_000, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"xxxxxxxxxx"}}`),
		delta(50_000, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"Read","arguments":"[["}}]}}]}`), delta(50_000, `{"type":"ping"}`), strings.Repeat(":\n\n", mib))
})

func upstreams(t *testing.T) attack {
	up := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, number, _ := strings.Cut(string(body), "reply ")
		var n int
		_, _ = fmt.Sscanf(number, "%d", &n)
		w.Header().Set("Content-Type", []string{"text/event-stream", "application/json", "text/html; charset=\x00"}[n/len(hostileReplies())%3])
		w.WriteHeader([]int{200, 200, 200, 429, 500, 400}[n%6])
		_, _ = io.WriteString(w, hostileReplies()[n%len(hostileReplies())])
		if n%5 == 0 { // an incomplete response
			panic(http.ErrAbortHandler)
		}
	}))
	front := func(text string) string { return "---\n" + text + "\n---\nBody.\n" }
	s := startRuntime(t, "", fmt.Sprintf(`  - {id: anthropic, model: m, provider: {protocol: anthropic, baseUrl: %q, apiKey: k}}
  - {id: openai, model: m, provider: {protocol: openai, baseUrl: %q, apiKey: k}}
`, up, up),
		".agents/skills/aliases/SKILL.md", front(aliases),
		".agents/skills/deep/SKILL.md", front("description: "+strings.Repeat("[", 60_000)), ".agents/skills/keys/SKILL.md", front(strings.Repeat("? [a]\n: b\n", 6000)),
		".agents/skills/merge/SKILL.md", front("a: &a {<<: *a}\n<<: [*a, *a]\ndescription: x"), ".agents/skills/large/SKILL.md", front("description: x")+strings.Repeat("x", 64*mib))
	return attack{server: s, pause: 250 * time.Millisecond, other: s.goodRun, step: func(ctx context.Context, n int) error {
		if n%10 == 9 {
			return s.expect(ctx, "good", `Skill {"skill":"`+[]string{"aliases", "deep", "keys", "merge", "large"}[n/10%5]+`"}`, "result: ")
		}
		status, text, err := s.run(ctx, []string{"anthropic", "openai"}[n/len(hostileReplies())%2], fmt.Sprintf("reply %d", n))
		if err == nil && status != http.StatusOK && status != http.StatusBadGateway && status != http.StatusTooManyRequests {
			err = fmt.Errorf("status %d with %.300q", status, text)
		}
		return err
	}}
}
