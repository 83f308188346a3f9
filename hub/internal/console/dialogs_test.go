package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// accessible requires that a view, such as an open dialog, is accessible in both themes, and fits
// on a phone.
func (b *tab) accessible(view string) {
	b.t.Helper()
	violations := b.violations(view)
	require.Empty(b.t, violations, strings.Join(violations, "\n"))
	b.screen(390, 844, true)
	b.picture(view + "-phone")
	require.LessOrEqual(b.t, eval[int64](b, "document.documentElement.scrollWidth"), int64(390), view)
	b.screen(1280, 800, false)
}

// press presses a key in the element that has the focus.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// The views that no address has: the steps to a session, dialogs, menus and what moves in.
func TestDialogs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := newTab(t)
	b.open(s.url + "/console")
	b.see("This hub has no user yet")
	b.accessible("no-user")
	b.open(s.url + "/console/register#setup=" + setupToken)
	b.fill("input[name=password]", password)
	b.accessible("register")
	b.click("form button.primary")
	b.see("First steps")
	b.accessible("first-steps")
	b.click(".steps button")
	b.see("Running")
	b.accessible("first-chat")
	b.click(".talk header button")
	b.see("notes.md")
	b.accessible("files")
	b.click(".tree li:last-child button")
	b.see("A file of the agent.")
	b.accessible("file")
	b.click("dialog .primary")
	b.click("button.user")
	b.see("Sign out")
	b.accessible("menu")
	b.visit("/agents/demo")
	b.click(".head .primary")
	b.see("Nothing has changed")
	b.accessible("deploy")
	b.click("dialog .primary")
	b.see("The new revision serves.")
	b.accessible("deployed")
	b.click("dialog .primary")
	b.visit("/agents/demo/deployments")
	b.see("2")
	b.click(".table .button")
	b.see("It starts as a new revision.")
	b.accessible("rollback")
	b.click("dialog .plain")
	b.visit("/users")
	b.click(".head .plain")
	b.see("First password")
	b.accessible("new-user")
	b.click("dialog .plain")
	b.click(".head .primary")
	b.click("dialog form .primary")
	b.see("Send this link")
	b.accessible("invitation")
	b.click("dialog > .buttons .primary")
	b.visit("/audit")
	b.click(".table .link")
	b.see("Browser or program")
	b.accessible("entry")
	b.click("dialog .primary")
	b.visit("/usage/budgets")
	b.click(".head .primary")
	b.see("Warning from")
	b.accessible("budget")
	b.click("dialog .plain")
	b.visit("/chat/demo")
	b.click(compose)
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.execCommand("insertText", false, %q)`, "# A heading\n\nSome **bold** text, `code`, [a link](https://agenthost.example.com/page) and a list:\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> A quotation\n\n```go\nfunc main() {}\n```\n")))
	b.click(".compose form button.primary")
	b.see("The answer is complete.")
	b.accessible("markdown")
	b.say("/tool Bash {\"command\":\"ls\"}")
	b.answered()
	b.click(".message:last-child .fold summary")
	b.accessible("tool")
	b.clean(s.url)
}

// The console is used without a mouse: the sign-in, the search, a list, a form and a dialog.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	for _, name := range []string{"alpha", "beta"} {
		s.call("POST", "/api/v1/admin/knowledge", root, map[string]any{"name": name, "datasetId": name}, http.StatusCreated)
	}
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.wait(`document.activeElement.name === "username"`)
	b.press("root" + kb.Tab + password + kb.Enter)
	b.see("This session")
	b.open(s.url + "/console/account")
	b.see("This session")
	b.press(kb.Tab)
	b.wait(`document.activeElement.className === "skip"`)
	b.press(kb.Enter)
	b.wait(`document.activeElement.id === "main"`)
	b.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.wait(`document.activeElement.getAttribute("role") === "combobox"`)
	b.accessible("search")
	b.press("knowl")
	b.wait(`document.querySelectorAll("[role=option]").length === 1`)
	b.press(kb.Enter)
	b.see("2 entries")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".table a").focus()`))
	b.press(kb.ArrowDown)
	b.wait(`document.activeElement.textContent.includes("beta")`)
	b.press(kb.Enter)
	b.wait(`document.querySelector("input[name=title]") !== null`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("input[name=title]").focus()`))
	b.press(" by keyboard")
	b.see("Not saved yet")
	b.accessible("changed-form")
	b.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	b.see("Saved.")
	require.Equal(t, "beta by keyboard", s.call("GET", "/api/v1/admin/knowledge/beta", root, nil, http.StatusOK)["title"])
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".head .danger").focus()`))
	b.press(kb.Enter)
	b.see("Type beta to confirm")
	b.accessible("confirm")
	b.press(kb.Escape)
	b.wait(`document.querySelector("dialog") === null && document.activeElement.matches(".head .danger")`)
	b.clean(s.url)
}
