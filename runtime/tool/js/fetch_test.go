package js_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

func TestFetch(t *testing.T) {
	t.Parallel()
	var slow, gone atomic.Int64 // requests that arrived, and those of them whose client has left
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		content, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Agent", r.UserAgent())
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"), r.Header.Get("X-Own"), content)
	})
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte{0, 255, 128, 'a', 0}) })
	mux.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"text":"é\u0000😀"}`) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/json", http.StatusFound) })
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat("x", 5<<20)) })
	mux.HandleFunc("/mega", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat("é", 1<<20)) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		slow.Add(1)
		<-r.Context().Done()
		gone.Add(1)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	h := newHost(t, js.Config{Client: server.Client()})
	rows := []struct{ name, code, want string }{
		{"post", `const r = await fetch(at + "/echo?q=1#h", {method: "post", body: "höllo", headers: {"X-Own": "o", Host: "evil", "Content-Length": "99"}})
			return [r.status, r.statusText, r.ok, r.url, r.headers.get("x-agent"), await r.text()]`,
			`[201,"Created",true,"AT/echo?q=1","agenthost","POST /echo?q=1 text/plain;charset=UTF-8 o höllo"]`},
		{"form", `return (await fetch(new URL("/echo", at), {method: "PUT", body: new URLSearchParams({a: "b c"})})).text()`,
			`PUT /echo application/x-www-form-urlencoded;charset=UTF-8  a=b+c`},
		{"bytes up", `return (await fetch(at + "/echo", {method: "POST", body: new Uint8Array([104, 105])})).text()`,
			`POST /echo   hi`},
		{"bytes down", `return [...new Uint8Array(await (await fetch(at + "/bytes")).arrayBuffer())]`, `[0,255,128,97,0]`},
		{"JSON", `return (await fetch(at + "/json")).json()`, "{\"text\":\"é\\u0000😀\"}"},
		{"redirect", `const r = await fetch(at + "/away"); return [r.redirected, r.url]`, `[true,"AT/json"]`},
		{"redirect by hand", `const r = await fetch(at + "/away", {redirect: "manual"}); return [r.status, r.headers.get("location"), r.redirected]`, `[302,"/json",false]`},
		{"redirect rejected", `return fetch(at + "/away", {redirect: "error"}).catch(e => e.message)`,
			`fetch failed: the response is a redirect`},
		{"status", `const r = await fetch(at + "/nothing"); return [r.ok, r.status]`, `[false,404]`},
		{"large", `return fetch(at + "/large").catch(e => e.name + e.message)`,
			`TypeErrorfetch failed: the response is larger than 4194304 bytes`},
		{"not so large", `return (await (await fetch(at + "/mega")).text()).length`, `1048576`},
		{"many", `const all = await Promise.all(Array.from({length: 50}, (_, i) => fetch(at + "/echo?" + i).then(r => r.text()))); return all.every((s, i) => s.startsWith("GET /echo?" + i))`, "true"},
		{"many that fail", `const all = await Promise.all(Array.from({length: 200}, (_, i) => fetch("http://127.0.0.1:1/" + i).catch(e => e.name))); return all.filter(s => s === "TypeError").length`, "200"},
		{"many with faults", `const bad = ["http://[::1]:1/", "http://a b/", at + "/away", "http://127.0.0.1:1/"]; const all = await Promise.all(Array.from({length: 200}, (_, i) => (i % 5 ? fetch(bad[i % 4], {redirect: "error"}) : fetch(at + "/json")).then(r => r.json()).catch(e => e.name))); return all.filter(s => s === "TypeError").length`, "160"},
		{"many after each other", `let n = 0; for (let i = 0; i < 200; i++) await fetch("http://127.0.0.1:1/").catch(() => n++); return n`, "200"},
		{"given up", `const c = new AbortController(); setTimeout(() => c.abort(), 20); return fetch(at + "/slow", {signal: c.signal}).catch(e => e.name)`, "AbortError"},
		{"given up before", `return fetch(at + "/slow", {signal: AbortSignal.abort()}).catch(e => e.name)`, "AbortError"},
		{"no method", `return fetch(at, {method: "A B"}).catch(e => e.message)`, "fetch failed: the method is no method"},
		{"no header", `return fetch(at, {headers: {"a\nb": "x"}}).catch(e => e.name)`, "TypeError"},
		{"no scheme", `return fetch("file:///etc/passwd").catch(e => e.message)`, "fetch failed: it knows http and https alone"},
		{"a body in GET", `return fetch(at, {body: "x"}).catch(e => e.message)`, "fetch failed: GET has no body"},
		{"left behind", `fetch(at + "/slow").catch(() => {}); await fetch(at + "/json"); return "done"`, "done"},
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return gone.Load() == slow.Load() }, patience, time.Millisecond,
			"the server sees the end of what was left behind")
	})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			subject := load(t, h, body("const at = "+quoted(server.URL)+"; "+row.code))
			require.Equal(t, tool.Result{Output: strings.ReplaceAll(row.want, "AT", server.URL)}, call(t, subject, `{}`))
		})
	}
}

// Without Config.Client scripts can access only public addresses.
func TestFetchIsGuarded(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret") }))
	t.Cleanup(server.Close)
	subject := load(t, newHost(t, js.Config{}), body(`return fetch(input.url).then(r => r.text(), e => "refused: " + e.message)`))
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, url := range []string{
		server.URL, "http://localhost:" + port, "http://[::1]:" + port, "http://0.0.0.0:" + port, "http://[::ffff:127.0.0.1]:" + port,
		"http://2130706433:" + port, "http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/", "http://192.168.0.1/",
	} {
		require.Contains(t, call(t, subject, `{"url":`+quoted(url)+`}`).Output, "refused: fetch failed", url)
	}
}
