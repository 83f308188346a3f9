package console_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// uuid matches an id of the hub, which no text for a person has.
var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}`)

var screenshots = flag.String("screenshots", "", "the directory for a picture of every page")

// upload sends a file.
func (s *server) upload(path, token, name, content string) {
	s.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	require.NoError(s.t, err)
	_, err = part.Write([]byte(content))
	require.NoError(s.t, err)
	require.NoError(s.t, form.Close())
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, &body)
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	require.Equal(s.t, http.StatusCreated, res.StatusCode)
}

// furnish creates one of everything, named with the text. It returns the id of the user mia, a
// member, and of her chat.
func (s *server) furnish(root, text string) (mia, chat string) {
	s.t.Helper()
	title := func(fields map[string]any) map[string]any {
		fields["title"], fields["description"] = text, text
		return fields
	}
	post := func(path string, body map[string]any) map[string]any {
		return s.call("POST", path, root, body, http.StatusCreated)
	}
	const admin = "/api/v1/admin/"
	s.upload(admin+"tools", root, "weather.ts", "// "+text+"\nexport default { name: 'weather', description: 'd', call() {} }\n")
	s.call("PUT", admin+"tools/weather", root, title(map[string]any{}), http.StatusOK)
	s.upload(admin+"skills", root, "SKILL.md", "---\nname: brief\ndescription: short answers\n---\nBe brief.\n")
	s.call("PUT", admin+"skills/brief", root, title(map[string]any{}), http.StatusOK)
	provider := post(admin+"providers", map[string]any{"name": text, "protocol": "openai", "baseUrl": "http://127.0.0.1:1/v1", "apiKey": "sk-0123456789abcdef", "models": []any{map[string]any{"id": "m", "displayName": text}}})
	post(admin+"mcps", title(map[string]any{"name": "search", "transport": "http", "url": "https://mcp.example.com/mcp", "headers": map[string]string{"Authorization": "secret"}}))
	post(admin+"knowledge", title(map[string]any{"name": "manual", "datasetId": "manual"}))
	s.deployed(root, "helper", title(map[string]any{"knowledge": []any{"manual"}, "skills": []any{"brief"}}))
	post(admin+"agents", title(map[string]any{"name": "draft", "providerId": provider["id"], "model": text}))
	post(admin+"scenes", title(map[string]any{"name": "review", "agentName": "helper", "prompt": text}))
	user := post(admin+"users", map[string]any{"username": "mia", "displayName": text, "role": "member", "password": "a first password of some length"})
	post(admin+"invites", map[string]any{"role": "member", "note": text})
	post("/api/v1/cli/issue-token", map[string]any{"name": text})
	s.call("PUT", fmt.Sprint(admin, "budgets/user/", user["id"]), root, map[string]any{"period": "month", "unit": "tokens", "hard": 1e9}, http.StatusOK)
	s.call("PUT", admin+"budgets/agent/helper", root, map[string]any{"period": "month", "unit": "tokens", "hard": 1e9}, http.StatusOK)
	login := s.call("POST", "/auth/login", "", map[string]string{"username": "mia", "password": "a first password of some length"}, http.StatusOK)["access_token"].(string)
	s.call("POST", "/auth/change-password", login, map[string]string{"old_password": "a first password of some length", "new_password": password}, http.StatusNoContent)
	for _, token := range []string{login, root} {
		made := s.call("POST", "/api/v1/agents/helper/chat/sessions", token, map[string]string{"title": text}, http.StatusCreated)
		chat = made["id"].(string)
		for _, message := range []string{text, "/think " + text, "/tool Glob {\"pattern\":\"*\"}"} {
			s.call("POST", "/api/v1/agents/helper/chat/sessions/"+chat+"/messages", token, map[string]string{"message": message}, http.StatusOK)
		}
	}
	return user["id"].(string), chat
}

// violations returns the violations of the rules of accessibility on the page, in both themes. Only
// the rules of colors depend on the theme. The page is light afterwards.
func (b *tab) violations(view string) []string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 4*patience)
	defer cancel()
	if !eval[bool](b, `"axe" in window`) { // not since the page was loaded
		source, err := os.ReadFile(filepath.Join("testdata", "axe", "node_modules", "axe-core", "axe.min.js"))
		require.NoError(b.t, err, "make setup installs it")
		require.NoError(b.t, chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](string(source)+"\n;0")))
	}
	var violations []string
	for _, theme := range []struct{ name, rules string }{{"dark", `runOnly: ["color-contrast", "link-in-text-block"], `}, {"light", ""}} {
		b.theme(theme.name)
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`axe.run(document, { `+theme.rules+`resultTypes: ["violations"] }).then((r) =>
			r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.target + " " + n.failureSummary)))`, chromedp.EvalAwaitPromise))
		require.NoError(b.t, err)
		for _, violation := range found {
			violations = append(violations, view+" in the theme "+theme.name+": "+violation)
		}
		b.picture(view + "-" + theme.name)
	}
	return violations
}

// theme makes the system dark or light for the page.
func (b *tab) theme(name string) {
	b.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}
	b.do(func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
		return none, err
	})
}

func (b *tab) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	data, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(*screenshots, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), data, 0o600))
}

// settled waits until a page has no skeleton.
func (b *tab) settled() {
	b.t.Helper()
	b.wait(`document.querySelector("#main").dataset.path === location.pathname && document.querySelector("h1, .chat") !== null && document.querySelector(".skeleton") === null`)
}

// visit follows a link to a page of the console.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const a = document.createElement("a"); a.href = %q; document.querySelector(".frame").append(a); a.click(); a.remove() }`, "/console"+path)))
	b.wait(fmt.Sprintf(`location.href.includes(%q) || %q === ""`, path, path))
	b.settled()
}

// Every page for each role, with one of everything whose names have markup: nothing of it runs,
// both themes are accessible, and it fits on a phone. A page of the console shows its heading and
// no problem. Actions that a role lacks are not displayed.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	name := markup
	if *screenshots != "" {
		name = "Reports of a quarter"
	}
	root := s.setUp()
	mia, chat := s.furnish(root, name)
	ofMia := s.call("GET", "/api/v1/admin/chat/sessions?user="+mia, root, nil, http.StatusOK)["items"].([]any)[0].(map[string]any)["id"].(string)
	s.join(root, "max", "maintainer")
	all := map[string]string{
		"start": "", "chat": "/chat/helper", "conversation": "/chat/helper/" + chat, "agents": "/agents", "agent": "/agents/helper", "approvals": "/approvals", "agent-deployments": "/agents/helper/deployments",
		"providers": "/providers", "provider": "/providers/demo", "tools": "/tools", "tool": "/tools/weather", "tool-built-in": "/tools/Bash", "skills": "/skills", "skill": "/skills/brief",
		"mcps": "/mcps", "mcp": "/mcps/search", "knowledge": "/knowledge", "knowledge-item": "/knowledge/manual", "scenes": "/scenes", "scene": "/scenes/review",
		"account": "/account", "password": "/account/password", "missing": "/nothing", "program": "/cli/54321/" + strings.Repeat("A", 43),
	}
	write := map[string]string{
		"agent-new": "/agents?create=1", "agent-configure": "/agents/helper/configure", "agent-yaml": "/agents/helper/configure?view=yaml", "agent-logs": "/agents/helper/logs", "agent-access": "/agents/helper/access",
		"provider-new": "/providers?create=1", "tool-new": "/tools?create=1", "skill-new": "/skills?create=1", "mcp-new": "/mcps?create=1", "knowledge-new": "/knowledge?create=1", "scene-new": "/scenes?create=1",
		"chats": "/chats", "chats-messages": "/chats/" + ofMia + "?user=" + mia, "chats-transcript": "/chats/" + ofMia + "/transcript?user=" + mia,
		"usage": "/usage", "budgets": "/usage/budgets", "labels": "/labels", "tokens": "/account/tokens",
	}
	admins := map[string]string{"users": "/users", "user": "/users/" + mia, "invites": "/users?show=invites", "audit": "/audit?category=agent", "settings": "/settings"}
	var violations []string
	for _, user := range []string{"root", "max", "mia"} {
		seen := maps.Clone(all)
		if user != "mia" {
			maps.Copy(seen, write)
		}
		hidden := maps.Clone(admins)
		if user == "root" {
			maps.Copy(seen, admins)
			hidden = nil
		}
		if user == "max" {
			delete(hidden, "settings") // the address has the content labels for maintainers, as it had for everyone
		}
		if user == "mia" {
			delete(seen, "conversation") // of root
			hidden["chats"], hidden["usage"], hidden["labels"] = "/chats", "/usage", "/labels"
		}
		b := newTab(t)
		b.theme("light")
		b.open(s.url + "/console/account")
		b.see("Sign in to agenthost")
		b.picture("signin")
		b.signIn(user, password)
		b.see("This session")
		for _, page := range slices.Sorted(maps.Keys(hidden)) {
			b.visit(hidden[page])
			require.Contains(t, b.text(), "Not found", "%s is hidden from %s", page, user)
			require.False(t, eval[bool](b, fmt.Sprintf(`[...document.querySelectorAll(".side a")].some((a) => a.pathname.endsWith(%q))`, hidden[page])), "%s has a link to %s", user, page)
		}
		for _, page := range slices.Sorted(maps.Keys(seen)) {
			b.visit(seen[page])
			require.Equal(t, page == "missing", strings.Contains(b.text(), "Not found"), "%s\n%s", page, b.text())
			require.False(t, eval[bool](b, `document.querySelector(".problem") !== null`), "%s\n%s", page, b.text())
			require.NotRegexp(t, uuid, b.text(), page)
			if user == "mia" {
				require.Zero(t, eval[int](b, `document.querySelectorAll("main .danger, main .page .primary:not(form *), main a.primary").length`), "%s displays what a member may not do\n%s", page, b.text())
			}
			if page != "missing" && user != "root" {
				b.picture(user + "-" + page)
				continue
			}
			violations = append(violations, b.violations(page)...)
			b.screen(390, 844, true)
			b.picture(page + "-phone")
			if width := eval[int64](b, "document.documentElement.scrollWidth"); width > 390 {
				violations = append(violations, fmt.Sprintf("%s is %d px wide on a phone", page, width))
			}
			b.screen(1280, 800, false)
		}
		if *screenshots != "" && user == "root" {
			b.do(chromedp.Evaluate[chromedp.Void](`localStorage.setItem("language", "zh")`))
			b.open(s.url + "/console/account")
			b.see("当前会话")
			for page, path := range seen {
				b.visit(path)
				b.picture(page + "-zh")
			}
		}
		b.clean(s.url)
	}
	require.Empty(t, violations, strings.Join(violations, "\n"))
}

// join creates a user whose password is not that of an admin any more.
func (s *server) join(root, name, role string) (id string) {
	s.t.Helper()
	const first = "a first password of some length"
	id = s.call("POST", "/api/v1/admin/users", root, map[string]any{"username": name, "role": role, "password": first}, http.StatusCreated)["id"].(string)
	login := s.call("POST", "/auth/login", "", map[string]string{"username": name, "password": first}, http.StatusOK)["access_token"].(string)
	s.call("POST", "/auth/change-password", login, map[string]string{"old_password": first, "new_password": password}, http.StatusNoContent)
	return id
}
