package console_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// another opens a tab with the cookies of the first one.
func (b *tab) another() *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	other := &tab{t: b.t, ctx: ctx, requests: map[[2]string]bool{}}
	require.NoError(b.t, chromedp.Listen(ctx, other.observe))
	other.screen(1280, 800, false)
	return other
}

// Two tabs share a session: both replace an expired access token, and when one signs out, the other
// one shows the sign-in. A session that has ended shows it at the same address.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setUp()
	one := newTab(t)
	one.open(s.url + "/console/providers?q=demo")
	one.signIn("root", password)
	one.see("Services that run models")
	require.Equal(t, "", eval[string](one, `document.cookie + JSON.stringify({...localStorage, ...sessionStorage}).replace("{}", "")`), "scripts cannot read the session")
	two := one.another()
	two.open(s.url + "/console/users")
	two.see("root")
	s.advance.Add(int64(16 * time.Minute))
	for range 2 { // the access token of both has expired
		one.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('a[href$="/tools"]').click()`))
		two.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('a[href$="/mcps"]').click()`))
	}
	one.see("Functions that an agent can call")
	two.see("There are no MCP servers yet.")
	two.click("button.user")
	two.click(".menu .items button")
	two.see("Sign in to agenthost")
	one.see("Sign in to agenthost")
	one.signIn("root", password)
	one.see("Functions that an agent can call")
	s.advance.Add(int64(15 * 24 * time.Hour))
	one.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('a[href$="/skills"]').click()`))
	one.see("Sign in to agenthost")
	one.signIn("root", password)
	one.see("There are no skills yet.")
	one.clean(s.url)
	two.clean(s.url)
}

// The address has the state of a page: back and reload lead to it. Changes are not lost without a
// question, and those of another user are shown.
func TestBackAndChanges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	set := map[string]any{"name": "manual", "title": "One", "datasetId": "manual"}
	s.call("POST", "/api/v1/admin/knowledge", root, set, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/console/tools?q=bash")
	b.signIn("root", password)
	b.see("1 entry")
	b.click(".table a")
	b.see("Built in")
	b.do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	b.see("1 entry")
	require.Equal(t, "bash", eval[string](b, `document.querySelector("input[type=search]").value`))
	b.click(`a[href$="/knowledge"]`)
	b.click(".table a")
	b.fill("input[name=title]", "Two")
	b.see("Not saved yet")
	b.do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	b.see("Leave without saving?")
	b.click("dialog .plain")
	require.Equal(t, "/console/knowledge/manual", eval[string](b, "location.pathname"))
	require.Equal(t, "Two", eval[string](b, `document.querySelector("input[name=title]").value`))
	set["title"] = "Three"
	s.call("PUT", "/api/v1/admin/knowledge/manual", root, set, http.StatusOK)
	b.click("form button.primary")
	b.see("Another user has saved in the meantime")
	b.see("Three")
	b.fits()
	b.click(".panel .danger")
	b.see("Saved.")
	require.Equal(t, "Two", s.call("GET", "/api/v1/admin/knowledge/manual", root, nil, http.StatusOK)["title"])
	b.click(`a[href$="/agents"]`)
	b.see("There are no agents yet.")
	b.do(chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }))`))
	b.fill("dialog input", "two")
	b.see("manual")
	b.do(chromedp.SendKeys(chromedp.CSS("dialog input"), "\r"))
	b.see("Dataset")
	b.clean(s.url)
}

// drop drops a file on the page.
func (b *tab) drop(name, content string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const d = new DataTransfer(); d.items.add(new File([%q], %q));
		document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true })) }`, content, name)))
}

func TestUpload(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setUp()
	b := newTab(t)
	b.open(s.url + "/console/tools?create=1")
	b.signIn("root", password)
	b.see("Drop a .ts")
	b.drop("a.ts", "export default 1\n")
	b.see("The file has no default export with a name.")
	b.drop("weather.ts", "export default { name: 'weather', description: 'd', call() {} }\n")
	b.see("Replace the file")
	b.see("export default { name: 'weather'")
	b.fits()
	b.open(s.url + "/console/skills?create=1")
	b.see("Drop a .zip")
	b.drop("SKILL.md", "---\nname: brief\ndescription: "+markup+"\n---\n")
	b.see("Community")
	b.click(".head .danger")
	b.see("Type brief to confirm")
	b.fill("dialog input", "brief")
	b.click("dialog .danger")
	b.see("There are no skills yet.")
	b.clean(s.url)
}

// A snapshot of the audit log stays while its pages are read.
func TestAuditPages(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	record := func(n int) {
		for i := range n {
			s.call("PATCH", "/api/v1/admin/users/"+s.call("GET", "/auth/userinfo", root, nil, 200)["id"].(string), root, map[string]string{"displayName": fmt.Sprint("name ", i, time.Now())}, 200)
		}
	}
	record(60)
	b := newTab(t)
	b.open(s.url + "/console/audit?category=user")
	b.signIn("root", password)
	b.see("60 entries")
	b.click(".paging .button:last-of-type")
	b.see("Page 2 of 2")
	record(5)
	b.click(".paging .button")
	b.see("Page 1 of 2")
	b.see("60 entries")
	b.click(".chips .info button")
	b.see("65 entries")
	b.click(".table td button")
	b.see("displayName")
	b.fits()
	b.click("dialog .primary")
	b.click(".actions .button")
	b.click("dialog .primary")
	b.see("entries verified: unchanged.")
	b.clean(s.url)
}

// Entries of the audit log name providers and users, and no text of them has an id.
func TestAuditEntriesHaveNames(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	provider := s.call("POST", "/api/v1/admin/providers", root, map[string]any{"name": "Our own", "protocol": "openai", "baseUrl": "http://127.0.0.1:1/v1"}, http.StatusCreated)["id"]
	agent := map[string]any{"name": "own", "providerId": provider, "model": "demo"}
	s.call("POST", "/api/v1/admin/agents", root, agent, http.StatusCreated)
	agent["providerId"] = "demo"
	s.call("PUT", "/api/v1/admin/agents/own", root, agent, http.StatusOK)
	s.call("DELETE", "/api/v1/admin/agents/own", root, nil, http.StatusNoContent)
	mia := s.join(root, "mia", "member")
	s.call("PUT", "/api/v1/admin/budgets/user/"+mia, root, map[string]any{"period": "month", "unit": "tokens", "hard": 5}, http.StatusOK)
	s.call("DELETE", "/api/v1/admin/budgets/user/"+mia, root, nil, http.StatusNoContent)
	s.call("PUT", "/api/v1/admin/budgets/user/"+mia, root, map[string]any{"period": "month", "unit": "tokens", "hard": 5}, http.StatusOK)
	s.call("DELETE", "/api/v1/admin/users/"+mia, root, nil, http.StatusNoContent)
	for _, entry := range s.call("GET", "/api/v1/admin/audit-logs?category=agent", root, nil, http.StatusOK)["items"].([]any) {
		entry := entry.(map[string]any)
		if entry["targetType"] == "user_budget" {
			require.Equal(t, []any{mia, "mia"}, []any{entry["targetId"], entry["targetName"]}, entry)
		}
	}
	b := newTab(t)
	b.open(s.url + "/console/audit")
	b.signIn("root", password)
	b.see("agent.create")
	texts := ""
	for i := range eval[int](b, `document.querySelectorAll(".table td button").length`) {
		b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelectorAll(".table td button")[%d].click()`, i)))
		b.wait(`document.querySelector("dialog[open] h2") !== null`)
		require.NotRegexp(t, uuid, b.text())
		texts += b.text()
		b.click("dialog .primary")
		b.wait(`document.querySelector("dialog[open]") === null`)
	}
	require.Regexp(t, `provider\s+Our own\s+Demo`, texts)
	b.clean(s.url)
}

// A limit that ends later than in some minutes has a time in each language.
func TestLaterLimits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.deployed(root, "helper", nil)
	s.call("PUT", "/api/v1/admin/budgets/agent/helper", root, map[string]any{"period": "month", "unit": "tokens", "hard": 1}, http.StatusOK)
	made := s.call("POST", "/api/v1/agents/helper/chat/sessions", root, map[string]string{}, http.StatusCreated)
	s.call("POST", "/api/v1/agents/helper/chat/sessions/"+made["id"].(string)+"/messages", root, map[string]string{"message": "Hello"}, http.StatusOK)
	b := newTab(t)
	b.open(s.url + "/console")
	b.signIn("root", password)
	b.see("First steps")
	for lang, want := range map[string]string{"en": `used all of this month's tokens: .* Try again after [^\n]*\d, \d{4}`, "zh": `限额。请在 \d{4}年\d+月\d+日[^\n]* 之后重试。`} {
		b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`localStorage.setItem("language", %q)`, lang)))
		b.open(s.url + "/console/chat/helper")
		b.wait(`document.querySelector(".compose textarea") !== null`)
		b.say("Hello")
		b.answered()
		require.Regexp(t, want, b.text())
	}
}

// A user with another language sees no English.
func TestChinese(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setUp()
	b := newTab(t)
	b.open(s.url + "/console/users")
	b.see("Sign in to agenthost")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[lang=zh]").click()`))
	b.see("登录 agenthost")
	b.signIn("root", "another password")
	b.see("用户名或密码错误。")
	require.NotRegexp(t, `\b[A-Z][a-z]+ [a-z]+`, b.text())
	b.fill("input[name=password]", password)
	b.click("form button.primary")
	b.see("创建邀请")
	require.Equal(t, "zh-CN", eval[string](b, "document.documentElement.lang"))
	require.NotRegexp(t, `\b[A-Z][a-z]+ [a-z]+`, b.text())
	b.fits()
	b.visit("/knowledge?create=1")
	b.fill("input[name=name]", "manual")
	b.fill("input[name=datasetId]", "-")
	b.click("form button.primary")
	b.see("不符合要求（must be 1 to 128")
	b.visit("/knowledge/missing")
	b.see("内容不存在或已被删除。")
	b.clean(s.url)
}

// A maintainer reads and deletes the chat of a member, with its label and its transcript.
func TestChatsOfOthers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.call("PUT", "/api/v1/admin/aigc/config", root, map[string]any{"enabled": true, "companyName": "Example", "uscc": "91350100M000100Y43", "contentProducer": "001191350100M000100Y4310001",
		"label": "1", "explicit": map[string]any{"mode": "append", "text": "内容由 AI 生成"}}, http.StatusOK)
	s.join(root, "max", "maintainer")
	of := s.join(root, "mia", "member")
	s.call("PUT", "/api/v1/admin/budgets/user/"+of, root, map[string]any{"period": "month", "unit": "tokens", "hard": 1e9}, http.StatusOK)
	s.deployed(root, "helper", nil)
	mia := s.call("POST", "/auth/login", "", map[string]string{"username": "mia", "password": password}, http.StatusOK)["access_token"].(string)
	chat := "/api/v1/agents/helper/chat/sessions"
	made := s.call("POST", chat, mia, map[string]string{"title": "Secret plans"}, http.StatusCreated)["id"].(string)
	s.call("POST", chat+"/"+made+"/messages", mia, map[string]string{"message": "/tool Glob {\"pattern\":\"*\"}"}, http.StatusOK)
	b := newTab(t)
	b.open(s.url + "/console/chats?user=mi")
	b.signIn("max", password)
	b.see("Secret plans")
	b.see("1 entry")
	b.fits()
	b.click(".table a")
	b.see("Glob returned: notes.md")
	b.see("内容由 AI 生成")
	b.wait(`[...document.querySelectorAll("details")].some((d) => d.textContent.includes("ProduceID"))`)
	b.fits()
	b.click(`.tabs a[href*=transcript]`)
	b.see("tool_result")
	b.click(".entries summary")
	b.see("\"runId\"")
	b.fits()
	b.do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	b.see("Glob returned: notes.md")
	b.click(".head .danger")
	b.click("dialog .danger")
	b.see("No results.")
	require.Zero(t, s.call("GET", chat, mia, nil, http.StatusOK)["total"])
	b.visit("/usage/budgets")
	b.wait(`document.querySelector(".table strong").innerText === "mia"`) // a maintainer reads usage, but no users
	b.clean(s.url)
}

// The files of all pages are small enough for a slow network.
func TestWeight(t *testing.T) {
	s := serve(t)
	_, page := s.get("/", nil)
	base, _, _ := strings.Cut(page[strings.Index(page, "/console/assets/"):], "/app/")
	total, first := 0, 0
	for path := range sources(t) {
		total += s.zipped(base + "/" + path)
	}
	total += s.zipped(base + "/lib/preact.js")
	b := newTab(t)
	b.open(s.url + "/")
	b.see("This hub has no users yet")
	first = eval[int](b, `performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).reduce((n, e) => n + e.transferSize, 0)`)
	t.Logf("all files %d bytes, first load %d bytes", total, first)
	require.Less(t, total, 150<<10)
	require.Less(t, first, 60<<10)
}

// zipped returns the size of a compressed file.
func (s *server) zipped(path string) int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	require.Equal(s.t, "gzip", res.Header.Get("Content-Encoding"), path)
	n, err := io.Copy(io.Discard, res.Body)
	require.NoError(s.t, err)
	return int(n)
}
