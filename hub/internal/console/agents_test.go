package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// choose selects an option of a field.
func (b *tab) choose(field, value string) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(chromedp.CSS(field)))
	b.wait(`document.querySelector('` + field + ` option[value="` + value + `"]') !== null`)
	b.do(chromedp.Evaluate[chromedp.Void](`{ const s = document.querySelector('` + field + `'); s.value = '` + value + `'; s.dispatchEvent(new Event("change", { bubbles: true })) }`))
}

// A maintainer tests a provider before it is stored, takes its models over, and creates an agent
// with one.
func TestProviderToAgent(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer sk-of-the-provider" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":{"message":"no such key"}}`))
			return
		}
		_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"small"},{"id":"large"}]}`))
	}))
	t.Cleanup(upstream.Close)
	s := serve(t)
	s.join(s.setUp(), "max", "maintainer")
	b := newTab(t)
	b.open(s.url + "/console/providers?create=1")
	b.signIn("max", password)
	b.fill("input[name=name]", "Local")
	b.choose("select[name=protocol]", "openai")
	b.fill("input[name=baseUrl]", upstream.URL+"/v1")
	b.fill("input[name=apiKey]", "sk-incorrect")
	b.click(".probe > .button")
	b.wait(`document.querySelector(".probe .note.bad") !== null`)
	b.fill("input[name=apiKey]", "sk-of-the-provider")
	b.click(".probe > .button")
	b.see("2 models:")
	b.click(".probe .note .button")
	require.Equal(t, "small\nlarge", eval[string](b, `document.querySelector("textarea[name=models]").value`))
	b.fits()
	b.click("form .primary")
	b.see("Created.")
	b.wait(`document.querySelector(".split aside") !== null`)
	require.NotContains(t, b.text(), "sk-of-the-provider")
	b.click(".split aside .button:not(.quiet)")
	b.see("sk-of-the-provider")
	b.visit("/agents?create=1")
	b.fill("input[name=name]", "writer")
	id := eval[string](b, `[...document.querySelectorAll("select[name=providerId] option")].find((o) => o.textContent === "Local").value`)
	b.choose("select[name=providerId]", id)
	require.Equal(t, "small", eval[string](b, `document.querySelector("input[name=model]").value`))
	b.click("form .primary")
	b.see("Not deployed")
	b.clean(s.url)
}

// A maintainer gives a built-in provider the key of the organization, replaces and removes it.
func TestKeyOfABuiltInProvider(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.join(s.setUp(), "max", "maintainer")
	b := newTab(t)
	b.open(s.url + "/console/providers/anthropic")
	b.signIn("max", password)
	for _, title := range []string{"Add your key", "Replace the key"} {
		b.see(title)
		b.fill("input[name=apiKey]", "sk-ant-of-the-organization-01")
		b.click("form .primary")
		b.see("sk-a...n-01")
	}
	b.fits()
	b.click(".split .button.danger")
	b.click("dialog .danger")
	b.see("Add your key")
	b.see("No key")
	b.clean(s.url)
}

// An agent is changed, deployed with its difference, rolled back, read as YAML, and deleted with
// what belongs to it.
func TestLifeOfAnAgent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	s.upload("/api/v1/admin/skills", root, "SKILL.md", "---\nname: brief\ndescription: short answers\n---\nBe brief.\n")
	s.deployed(root, "helper", map[string]any{"maxTurns": 10})
	s.call("POST", "/api/v1/admin/scenes", root, map[string]any{"name": "review", "title": "Review", "agentName": "helper", "prompt": "Review"}, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/console/agents/helper/configure")
	b.signIn("root", password)
	b.fill("input[name=maxTurns]", "25")
	b.fill(".names input", "Read")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".names .add .button").click()`)) // the list of options is above it
	b.see("Not saved yet")
	b.fits()
	b.fill("textarea[name=subagents]", "{")
	b.click("form .primary")
	b.see("is not JSON")
	require.Equal(t, "subagents", eval[string](b, "document.activeElement.name"))
	b.fill("textarea[name=subagents]", "{}")
	b.click("form .primary")
	b.see("Saved.")
	b.click(".head .primary")
	b.see(`+   "maxTurns": 25`)
	b.see(`-   "maxTurns": 10`)
	b.click("dialog .primary")
	b.see("The new revision is live.")
	b.click("dialog .primary")
	b.visit("/agents/helper/deployments")
	b.wait(`document.querySelectorAll(".table tbody tr").length === 2`)
	b.click(".table tbody .button")
	b.click("dialog .primary")
	b.wait(`document.querySelectorAll(".table tbody tr").length === 3`)
	b.visit("/agents/helper/configure?view=yaml")
	b.see("The same configuration as a file, without secrets.")
	require.Contains(t, eval[string](b, `document.querySelector("#yaml").value`), "maxTurns: 25")
	b.visit("/agents/helper/logs")
	b.see("listening on")
	b.fill(".filters input", "nothing like this")
	b.see("The log is empty.")
	b.visit("/agents/helper/access")
	b.click("input[name=everyone]")
	b.see("Usernames or user IDs.")
	b.visit("/agents/helper")
	b.see("Leave without saving?")
	b.click("dialog .danger")
	b.see(s.url + "/openai/v1")
	b.click("details summary")
	b.see("curl " + s.url + "/openai/v1/chat/completions")
	b.see(`"model": "helper"`)
	b.click(".danger-list .danger")
	b.fill("dialog input", "helper")
	b.click("dialog .danger")
	b.see("Not deployed")
	b.click(".danger-list .danger")
	b.see("Its 0 chats stay in the list of all chats.")
	b.fill("dialog input", "helper")
	b.click("dialog .danger")
	b.see("These scenes use the agent: review.")
	s.call("DELETE", "/api/v1/admin/scenes/review", root, nil, http.StatusNoContent)
	b.click(".danger-list .danger")
	b.fill("dialog input", "helper")
	b.click("dialog .danger")
	b.see("There are no agents yet.")
	b.visit("/skills/brief")
	b.click(".tree .button")
	b.see("Be brief.")
	b.clean(s.url)
}

// A deployment that failed has its reason once: the error, and conditions with other messages.
func TestReasonOfAFailedDeployment(t *testing.T) {
	t.Parallel()
	s := serve(t)
	token := s.setUp()
	s.deployed(token, "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console/agents/helper")
	b.signIn("root", password)
	b.see("Running")
	b.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const real = window.fetch;
		window.fetch = async (address, options) => {
			const response = await real(address, options);
			if (!String(address).endsWith("/helper/deploy")) return response;
			const condition = (type, message) => ({ type, status: false, message, changedAt: "2026-01-01T00:00:00Z" });
			const conditions = [condition("ready", "no such image"), condition("applied", "no space"), condition("Progressing", "no space")];
			return Response.json({ ...(await response.json()), state: "failed", error: "no such image", conditions });
		};
	})()`))
	b.see("Rollout failed")
	require.Equal(t, 1, strings.Count(b.text(), "no such image"))
	require.Equal(t, 1, strings.Count(b.text(), "no space"))
	b.clean(s.url)
}
