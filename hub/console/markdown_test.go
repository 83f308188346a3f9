package console_test

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// hostile are answers with which a model could stop the page, or make it show something else.
const hostile = `(async () => {
	const { markdown, Stream } = await import(new URL("../parts/markdown.js", document.querySelector("script[type=module]").src))
	const length = 200_000
	const root = document.createElement("div")
	const show = (text) => { root.replaceChildren(...markdown(text, {})); return root }
	for (const unit of [" ", "~", "-", "# ", "> ", "|", "- ", "_a ", "**a", "[", "![", "[[a]", "~~a ", "[a](", "https://a"]) {
		for (const before of ["", "` + "```" + `", "~~~", "a", "[a](b"]) show(before + unit.repeat(length / unit.length) + "` + "`" + `")
	}
	for (const unit of ["a\n\n", "- a\n", "` + "```" + `\n` + "```" + `\n", "# a\n", "> a\n\n", "|\n"]) {
		const stream = new Stream(root, {})
		stream.append(unit.repeat(length / 8))
		stream.end()
		show(unit.repeat(length / 8))
	}
	const half = length / 2
	const cells = show("|a".repeat(half) + "\n|-" + "\n|".repeat(half)).querySelectorAll("td").length
	if (cells > length) return cells + " cells"
	return show("[a](javascript:alert) [b](JaVaScRiPt:alert) [c](data:text/html,x) [d](/console) ![e](vbscript:x) <a href=javascript:alert>f</a> " +
		"<javascript:alert> https://h:port/ [g](https://agenthost.example.com/g) a_b_c_d" +
		" [h](" + location.origin + "/auth/login?org=evil) [i](HTTPS://" + location.hostname + ".) [j](http://u:p@" + location.host + "/) " + location.origin + "/k").innerHTML.replaceAll(location.host, "HUB").replaceAll(location.hostname, "NAME")
})()`

// Markdown of a model has links to other sites only, and its length bounds the time and the memory
// of its display.
func TestMarkdownOfAHostileModel(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := newTab(t)
	b.open(s.url + "/console")
	b.see("Sign in")
	// A time linear in the length is seconds, and a quadratic one minutes for one text.
	ctx, cancel := context.WithTimeout(b.ctx, 4*patience)
	defer cancel()
	shown, err := chromedp.Run(ctx, chromedp.Evaluate[string](hostile, chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	require.Equal(t, `<p>[a](javascript:alert) [b](JaVaScRiPt:alert) [c](data:text/html,x) [d](/console) ![e](vbscript:x) `+
		`&lt;a href=javascript:alert&gt;f&lt;/a&gt; &lt;javascript:alert&gt; https://h:port/ `+
		`<a href="https://agenthost.example.com/g" target="_blank" rel="noopener noreferrer nofollow">g</a> a_b_c_d `+
		`[h](http://HUB/auth/login?org=evil) [i](HTTPS://NAME.) [j](http://u:p@HUB/) http://HUB/k</p>`, shown)
	b.clean(s.url)
}

// endless streams one item with nested ones that never ends, and returns the largest part that is
// drawn again with each frame, and the number of the words that are displayed. Then it streams a
// paragraph without a space, and returns the length that is displayed.
const endless = `(async () => {
	const { Stream } = await import(new URL("../parts/markdown.js", document.querySelector("script[type=module]").src))
	const root = document.createElement("div")
	const stream = new Stream(root, {})
	let open = 0
	stream.append("- begin\n")
	for (let i = 0; i < 200; i++) {
		stream.append("  - nested words\n".repeat(100))
		stream.flush()
		open = Math.max(open, stream.rest.length)
	}
	stream.end()
	const words = root.textContent.split("nested").length - 1
	root.replaceChildren()
	const text = new Stream(root, {})
	for (let i = 0; i < 100; i++) text.append("字".repeat(1000))
	text.end()
	return [open, words, root.textContent.length]
})()`

func TestAStreamedListWithoutEnd(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := newTab(t)
	b.open(s.url + "/console")
	b.see("Sign in")
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[[]int](endless, chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	require.Less(t, result[0], 25_000)
	require.Equal(t, 20_000, result[1], "every word is displayed once")
	require.Equal(t, 100_000, result[2], "every character is displayed once")
	b.clean(s.url)
}
