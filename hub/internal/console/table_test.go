package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// column returns the texts of a column of the table, from the top.
func (b *tab) column(n int) []string {
	b.t.Helper()
	return eval[[]string](b, fmt.Sprintf(`[...document.querySelectorAll(".table tbody tr")].map((r) => [...r.querySelectorAll("td:not(.pick)")][%d].innerText.trim())`, n))
}

// A table that has all rows of a list is sorted by its headers, with the keyboard too. The address
// has the order, so that a reload shows it again. That of a page of a longer list says so.
func TestTablesAreSorted(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	for i, name := range []string{"report-2", "report-10", "alpha"} {
		s.call("POST", "/api/v1/admin/agents", root, map[string]any{"name": name, "providerId": "demo", "model": fmt.Sprint("model-", 3-i)}, http.StatusCreated)
	}
	b := newTab(t)
	b.open(s.url + "/console/agents")
	b.signIn("root", password)
	b.see("report-10")
	order := func() string {
		return eval[string](b, `[...document.querySelectorAll("th")].map((h) => h.ariaSort || "-").join()`)
	}
	unsorted := b.column(0)
	require.Equal(t, "-,-,-,-", order())
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("th .sort").focus()`))
	b.press("\r")
	b.wait(`document.querySelector("th").ariaSort === "ascending"`)
	require.Equal(t, []string{"alpha alpha", "report-2 report-2", "report-10 report-10"}, b.column(0), "numbers in names count")
	require.Equal(t, "SORT", eval[string](b, `document.activeElement.className.toUpperCase()`), "the focus stays")
	b.press(" ")
	b.wait(`document.querySelector("th").ariaSort === "descending"`)
	require.Equal(t, []string{"report-10 report-10", "report-2 report-2", "alpha alpha"}, b.column(0))
	b.do(chromedp.Reload())
	b.see("report-10")
	require.Equal(t, "descending,-,-,-", order(), "the address has the order")
	b.accessible("a sorted table")
	b.press("\r")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("th .sort").click()`))
	b.wait(`document.querySelector("[aria-sort]") === null`)
	require.Equal(t, unsorted, b.column(0))
	b.screen(390, 844, true)
	b.choose(".order select", "2")
	b.wait(`location.search === "?sort=2"`)
	require.Equal(t, []string{"model-1", "model-2", "model-3"}, b.column(1), "a phone has a choice in place of headers")
	b.screen(1280, 800, false)
	b.fits()
	b.screen(1280, 800, false)
	for _, page := range []string{"/users?sort=-1", "/users?show=invites&sort=1", "/audit?sort=-2", "/chats?sort=1", "/providers?sort=-3", "/tools?sort=2", "/usage?sort=1", "/usage/budgets?sort=1", "/account?sessions=-3", "/agents?sort=99", "/agents?sort=x"} {
		b.visit(page)
		require.False(t, eval[bool](b, `document.querySelector(".problem, .notice.bad") !== null`), page)
	}
	for i := range 30 {
		s.call("POST", "/api/v1/admin/agents", root, map[string]any{"name": fmt.Sprint("many-", i), "providerId": "demo", "model": "demo"}, http.StatusCreated)
		s.call("POST", "/api/v1/admin/knowledge", root, map[string]any{"name": fmt.Sprint("set-", i), "datasetId": fmt.Sprint(100 - i)}, http.StatusCreated)
	}
	b.visit("/knowledge?sort=2")
	require.Equal(t, "71", b.column(1)[0])
	require.Len(t, b.column(1), 30)
	b.open(s.url + "/console/agents?sort=1")
	b.see("Page 1 of 2")
	b.see("Only the rows of this page are sorted.")
	require.True(t, strings.HasPrefix(b.column(0)[0], "alpha"))
	b.visit("/agents")
	b.see("Page 1 of 2")
	require.NotContains(t, b.text(), "Only the rows of this page")
	b.clean(s.url)
}

// Rows are selected with the mouse and the keyboard. One dialog names what goes, and nothing goes
// without it. What cannot go has no box, and what fails is named.
func TestRowsAreSelected(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.deployed(root, "served", nil)
	for _, name := range []string{"one", "two", "used"} {
		s.call("POST", "/api/v1/admin/agents", root, map[string]any{"name": name, "title": name + markup, "providerId": "demo", "model": "demo"}, http.StatusCreated)
	}
	s.call("POST", "/api/v1/admin/scenes", root, map[string]any{"name": "review", "agentName": "used", "prompt": "p"}, http.StatusCreated)
	s.join(root, "max", "maintainer")
	s.join(root, "mia", "member")
	b := newTab(t)
	b.open(s.url + "/console/agents")
	b.signIn("root", password)
	b.wait(`document.querySelectorAll("tbody .pick input").length === 4`)
	require.False(t, eval[bool](b, `document.querySelector(".selection") !== null`))
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("tbody .pick input").focus()`))
	b.press(" ")
	b.see("1 selected")
	require.True(t, eval[bool](b, `document.querySelector("thead input").indeterminate`))
	require.True(t, strings.HasPrefix(eval[string](b, `document.activeElement.ariaLabel`), "Select "))
	b.do(chromedp.KeyEvent("ArrowDown"))
	require.Equal(t, "checkbox", eval[string](b, `document.activeElement.type`))
	b.click("thead input")
	b.see("4 selected")
	b.see("Delete the deployments (1)")
	b.see("Delete (3)")
	b.accessible("a selection")
	remaining := func() float64 {
		return s.call("GET", "/api/v1/admin/agents", root, nil, http.StatusOK)["total"].(float64)
	}
	const remove = ".selection .danger:nth-of-type(2)"
	b.click(remove)
	b.see("Delete 3 agents?")
	require.Equal(t, []string{"one" + markup, "two" + markup, "used" + markup}, eval[[]string](b, `[...document.querySelectorAll("dialog li")].map((e) => e.textContent).sort()`))
	require.True(t, eval[bool](b, `document.querySelector("dialog .danger").disabled`))
	b.accessible("a dialog with what goes")
	b.click("dialog .plain")
	b.wait(`document.querySelector("dialog") === null`)
	require.EqualValues(t, 4, remaining())
	b.see("4 selected")
	b.click(remove)
	b.fill("dialog input", "3")
	b.click("dialog .danger")
	b.see("1 entry failed: used" + markup)
	b.wait(`document.querySelectorAll("tbody tr").length === 2`)
	require.EqualValues(t, 2, remaining())
	require.False(t, eval[bool](b, `document.querySelector(".selection") !== null`), "nothing is selected any more")
	b.click("thead input")
	b.click(".selection .danger")
	b.see("Delete the deployment of 1 agent?")
	b.fill("dialog input", "1")
	b.click("dialog .danger")
	b.see("Not deployed")
	b.screen(390, 844, true)
	b.click("tbody .pick input")
	b.see("1 selected")
	b.fits()
	b.screen(1280, 800, false)

	b.visit("/users")
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll("tbody .pick input").length`), "the user who is signed in stays")
	b.visit("/tools")
	require.Zero(t, eval[int](b, `document.querySelectorAll(".pick").length`), "built-in tools stay")
	b.visit("/scenes")
	b.click("thead input")
	b.click(".selection .danger")
	b.fill("dialog input", "1")
	b.click("dialog .danger")
	b.see("There are no scenes yet.")
	for i := range 2 {
		s.call("POST", "/api/v1/admin/invites", root, map[string]any{"role": "member", "note": fmt.Sprint("for ", i)}, http.StatusCreated)
	}
	s.call("PUT", "/api/v1/admin/budgets/agent/served", root, map[string]any{"period": "month", "unit": "tokens", "hard": 1e9}, http.StatusOK)
	for page, found := range map[string][2]string{"/users?show=invites": {"Revoke 2 invitations?", "Revoked"}, "/usage/budgets": {"Delete 1 budget?", "There are no budgets."}} {
		b.visit(page)
		b.click("thead input")
		b.click(".selection .danger")
		b.see(found[0])
		b.fill("dialog input", found[0][7:8])
		b.click("dialog .danger")
		b.see(found[1])
		b.wait(`document.querySelector(".pick") === null`)
	}
	b.clean(s.url)

	member := newTab(t)
	member.open(s.url + "/console/agents")
	member.signIn("mia", password)
	member.see("served")
	require.Zero(t, eval[int](member, `document.querySelectorAll(".pick").length`))
	member.clean(s.url)
}
