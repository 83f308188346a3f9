package console_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The documentation of both servers and the start page of the runtime fit on a phone, closed and
// with everything open, and a link opens its target.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	s := serve(t)
	rt, err := runtime.New(t.Context(), runtime.Config{Version: "1.2.3", Agents: []agent.Agent{
		{ID: "demo", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	front := httptest.NewServer(rt)
	t.Cleanup(front.Close)
	b := newTab(t)
	b.open(front.URL + "/")
	b.see("agenthost runtime")
	b.see("1.2.3")
	b.fits()
	b.click(`a[href="docs"]`)
	b.see("first steps")
	b.clean(front.URL)
	for _, server := range []string{s.url, front.URL} {
		b := newTab(t)
		b.open(server + "/docs")
		b.see("first steps")
		b.fits()
		const link = `document.querySelector('details a[href^="#schema-"]')`
		target := eval[string](b, `(() => {
			const a = `+link+`
			for (let e = a; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true
			return a.hash
		})()`)
		const shown = `document.querySelector(%q).checkVisibility()`
		require.False(t, eval[bool](b, fmt.Sprintf(shown, target)))
		b.do(chromedp.Evaluate[chromedp.Void](link + ".click()"))
		require.Eventually(t, func() bool { return eval[bool](b, fmt.Sprintf(shown, target)) }, patience, 10*time.Millisecond, "the link opens nothing")
		b.do(chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true`))
		b.fits()
		b.clean(server)
	}
}
