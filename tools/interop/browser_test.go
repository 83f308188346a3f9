package interop_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// tab is a page of Chromium. Its user finds fields and buttons by what is written on them.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// browser opens Chromium, until the test ends.
func browser(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("lang", "en-US"))
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() { cancel(); stop() })
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800)))
	return &tab{t, ctx}
}

// clicks is a program that notes the address which another program opens in the browser.
func (p *person) clicks() string {
	p.t.Helper()
	path := filepath.Join(p.home, "browser")
	require.NoError(p.t, os.WriteFile(path, []byte("#!/bin/sh\necho \"$1\" >"+p.home+"/address.new && mv "+p.home+"/address.new "+p.home+"/address\n"), 0o700))
	return path
}

// follow opens the address that a program has opened in the browser of the person.
func (p *person) follow(b *tab) {
	p.t.Helper()
	path := filepath.Join(p.home, "address")
	require.Eventually(p.t, func() bool { _, err := os.Stat(path); return err == nil }, patience, tick)
	address, err := os.ReadFile(path)
	require.NoError(p.t, err)
	require.NoError(p.t, os.Remove(path))
	b.open(strings.TrimSpace(string(address)))
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...), b.text())
}

// open loads a page, also if the address differs only in the fragment.
func (b *tab) open(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
}

// signIn signs a user in on the page that is open.
func (b *tab) signIn(name string) {
	b.t.Helper()
	b.fill("Username", name)
	b.fill("Password", invented)
	b.press("Sign in")
	b.see("First steps")
}

// chat sends a message, and waits for a text of the answer.
func (b *tab) chat(message, answer string) {
	b.t.Helper()
	b.fill("Message", message)
	b.press("Send")
	b.see(answer)
}

// mark waits for the first visible element that is enabled and has a label, marks it, and returns
// its selector.
func (b *tab) mark(elements, label string) chromedp.CSS {
	b.t.Helper()
	b.wait(fmt.Sprintf(`(() => {
		const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled
		const name = (e) => [e.labels?.[0]?.textContent, e.getAttribute("aria-label"), e.placeholder, e.innerText].map((text) => (text || "").trim())
		const open = [...document.querySelectorAll("dialog[open]")].at(-1) || document
		const all = [...open.querySelectorAll(%q)].filter(shown)
		const found = all.find((e) => name(e).includes(%[2]q)) || all.find((e) => name(e).some((text) => text.startsWith(%[2]q + " ")))
		document.querySelectorAll("[data-found]").forEach((e) => e.removeAttribute("data-found"))
		found?.setAttribute("data-found", "")
		return Boolean(found)
	})()`, elements, label))
	return chromedp.CSS("[data-found]")
}

// fill types a text into the field with a label.
func (b *tab) fill(label, text string) {
	b.t.Helper()
	field := b.mark("input, textarea, select", label)
	b.do(chromedp.Evaluate[chromedp.Void](`(() => { const e = document.querySelector("[data-found]"); e.select?.(); e.focus() })()`), chromedp.SendKeys(field, text))
}

// press clicks the button or the link with a label, wherever a layout that moves has it.
func (b *tab) press(label string) {
	b.t.Helper()
	b.mark("button, a, summary, [role=tab], label", label)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[data-found]").click()`))
}

// see waits until the page displays a text.
func (b *tab) see(text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.body && document.body.innerText.includes(%q)", text))
}

// wait waits until an expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	again := time.NewTicker(tick)
	defer again.Stop()
	for {
		if found, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && found {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			require.FailNow(b.t, expression, b.text())
		}
	}
}

// text returns the displayed text.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + (document.body ? document.body.innerText : "")`))
	return text
}
