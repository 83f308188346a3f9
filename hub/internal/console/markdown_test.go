package console_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// evaluate returns the result of the body of an asynchronous function, which imports modules of the
// page with load, and waits for the end of a stream with ended.
func evaluate[T any](b *tab, body string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 4*patience)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[T](`(async () => {
		const load = (name) => import(new URL("../" + name, document.querySelector("script[type=module]").src))
		const ended = async (stream) => {
			stream.end()
			while (stream.leaf || stream.at < stream.rest.length) await new Promise((done) => setTimeout(done))
		}
		`+body+`
	})()`, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return result
}

// newPage opens the sign-in, whose modules a test can use.
func newPage(t *testing.T) (*tab, *server) {
	t.Helper()
	s := serve(t)
	b := newTab(t)
	b.open(s.url + "/console")
	b.see("This hub has no users yet")
	return b, s
}

// hostile are answers with which a model could stop the page. Each is measured with two lengths.
const hostile = `
	const { Markdown } = await load("parts/markdown.js")
	const { readCharacters } = await load("parts/inline.js")
	const units = [" ", "~", "-", "*", "_", "# ", "> ", ">", "|", "- ", "1. ", "_a ", "**a", "*a ", "*a_b ", "[", "]", "![", "[[a]", "[a]", "~~a ", "[a](", "[a](x ", "[a](x \"", "[a]([a]",
		"[a](" + " ".repeat(100), "(", ")", "[a](b)", "[a](https://e.example)", "https://a", "https://", "https://a.b/ ", "\\", "\\*", "` + "`" + `", "` + "``" + ` ", "<", "<a href=\"", "<!--", "&amp;", "a*b_c", "*_~~", "字", "\u{1f600}", "\t",
		"a\n\n", "- a\n", "> a\n", "> a\n\n", "> - ", "# a\n", "|a|b|\n|-|-|\n", "|a", "|-", "a|b\n", "` + "```" + `\n", "~~~\n", "---\n", "a  \n", "\\\n", "1. a\n\n", "*a\n", "**a**\n", "[a](\n", "a\r\n", "\n"]
	// Each run of backticks has another length.
	const runs = (length) => { let text = ""; for (let n = 1; text.length < length; n++) text += "` + "`" + `".repeat(n) + " "; return text }
	const texts = units.flatMap((unit) => ["", "a", "` + "```" + `\n", "- ", "[a](b", "|a|\n|-|\n"].map((before) => (length) => before + unit.repeat(Math.ceil(length / unit.length)) + "*_` + "`" + `)]"))
	texts.push(runs, (length) => "[a](" + " ".repeat(length) + "\n\n" + "[a](" + " ".repeat(length), (length) => "- ".repeat(8) + "*a ".repeat(length / 3), (length) => "[a](".repeat(length / 8) + "x y" + ")".repeat(length / 8),
		(length) => "*".repeat(3) + "a " + "**b".repeat(length / 6) + "b** ".repeat(length / 8), (length) => "[".repeat(length / 4) + "a" + "](b)".repeat(length / 8))
	let most = 0
	const depthOf = (root) => { let depth = 0; for (let e = root; e; e = e.lastElementChild) depth++; return depth }
	const reads = (text) => {
		const root = document.createElement("div")
		const from = readCharacters()
		for (const _ of new Markdown(root, {}).all(text)) ;
		if (depthOf(root) > 80) throw new Error("an element in " + depthOf(root) + " others: " + text.slice(0, 40))
		return readCharacters() - from
	}
	const faults = []
	for (const text of texts) {
		for (const n of [2500, 20_000]) {
			const all = text(n)
			const each = reads(all) / (all.length + 100)
			most = Math.max(most, each)
			if (each > 20) faults.push(JSON.stringify(text(20)) + " of " + n + ": " + each)
		}
	}
	return { most, faults, texts: texts.length }`

// The characters of a message are looked at a constant number of times, for texts of any kind.
func TestMarkdownOfAHostileModelIsLinear(t *testing.T) {
	t.Parallel()
	b, s := newPage(t)
	result := evaluate[struct {
		Most   float64
		Faults []string
		Texts  int
	}](b, hostile)
	require.Empty(t, result.Faults, "how often each character was looked at")
	t.Logf("at most %.1f times in %d texts", result.Most, result.Texts)
	require.Greater(t, result.Texts, 300)
	b.clean(s.url)
}

// A text of a model has links to other sites only.
func TestLinksOfAHostileModel(t *testing.T) {
	t.Parallel()
	b, s := newPage(t)
	shown := evaluate[string](b, `
	const { Markdown } = await load("parts/markdown.js")
	const root = document.createElement("div")
	for (const _ of new Markdown(root, {}).all("[a](javascript:alert) [b](JaVaScRiPt:alert) [c](data:text/html,x) [d](/console) ![e](vbscript:x) <a href=javascript:alert>f</a> " +
		"<javascript:alert> https://h:port/ [g](https://agenthost.example.com/g) a_b_c_d" +
		" [h](" + location.origin + "/auth/login?org=evil) [i](HTTPS://" + location.hostname + ".) [j](http://u:p@" + location.host + "/) " + location.origin + "/k" +
		" [[l] **m**](https://agenthost.example.com/\"n) [o https://agenthost.example.com/p](//q)")) ;
	return root.innerHTML.replaceAll(location.host, "HUB").replaceAll(location.hostname, "NAME")`)
	const attributes = ` target="_blank" rel="noopener noreferrer nofollow"`
	require.Equal(t, `<p>[a](javascript:alert) [b](JaVaScRiPt:alert) [c](data:text/html,x) [d](/console) ![e](vbscript:x) `+
		`&lt;a href=javascript:alert&gt;f&lt;/a&gt; &lt;javascript:alert&gt; https://h:port/ `+
		`<a href="https://agenthost.example.com/g"`+attributes+`>g</a> a_b_c_d `+
		`[h](http://HUB/auth/login?org=evil) [i](HTTPS://NAME.) [j](http://u:p@HUB/) http://HUB/k `+
		`<a href="https://agenthost.example.com/%22n"`+attributes+`>[l] <strong>m</strong></a> [o https://agenthost.example.com/p](//q)</p>`, shown)
	b.clean(s.url)
}

// examples are texts with what is rendered, all at once and in the parts of a stream.
var examples = []struct{ name, text, want string }{
	{"marks", "*a* **b** ***c*** ~~d~~ `e` _f_ __g__ **h*i*j**", `<p><em>a</em> <strong>b</strong> <em><strong>c</strong></em> <del>d</del> <code>e</code> <em>f</em> <strong>g</strong> <strong>h*i*j</strong></p>`},
	{"no marks", "2 * 3 * 4, 2*3*4, snake_case_name, a ~ b, **open, `open", "<p>2 * 3 * 4, 2*3*4, snake_case_name, a ~ b, **open, `open</p>"},
	{"marks that overlap", "*a **b* c**", `<p><em>a **b</em> c**</p>`},
	{"code", "`` a`b `` and `*c*` and \\`d\\`", "<p><code>a`b</code> and <code>*c*</code> and `d`</p>"},
	{"escapes", `\*a\* \[b](c) \\`, `<p>*a* [b](c) \</p>`},
	{"breaks of lines", "a  \nb\\\nc\nd", "<p>a<br>b<br>c\nd</p>"},
	{"link with a title and parentheses", `[a *b*](https://e.example/x_(y) "z")`, `<p><a href="https://e.example/x_(y)" target="_blank" rel="noopener noreferrer nofollow">a <em>b</em></a></p>`},
	{"address", "see https://e.example/a_b_c.", `<p>see <a href="https://e.example/a_b_c" target="_blank" rel="noopener noreferrer nofollow">https://e.example/a_b_c</a>.</p>`},
	{"Chinese", "这是**重点**内容", "<p>这是<strong>重点</strong>内容</p>"},
	{"headings", "# a\n## b ##\n#c", "<h3>a</h3><h4>b</h4><p>#c</p>"},
	{"list in a list", "- a\n  - b\n    1. c\n- d", "<ul><li>a<ul><li>b<ol start=\"1\"><li>c</li></ol></li></ul></li><li>d</li></ul>"},
	{"list of paragraphs", "3. a\n\n   b\n\n4. c\nd", "<ol start=\"3\"><li>a<p>b</p></li><li>c\nd</li></ol>"},
	{"list after a paragraph", "a\n- b\n\nc", "<p>a</p><ul><li>b</li></ul><p>c</p>"},
	{"two lists", "- a\n1. b", "<ul><li>a</li></ul><ol start=\"1\"><li>b</li></ol>"},
	{"quote", "> a\nb\n> - c\n\nd", "<blockquote><p>a\nb</p><ul><li>c</li></ul></blockquote><p>d</p>"},
	{"rule", "a\n\n---\n* * *", "<p>a</p><hr><hr>"},
	{"table", "a\n|b|c|\n|-|-|\n|`d`|e\\|f|g|\nh", `<p>a</p><div class="scroll-x" tabindex="0"><table><thead><tr><th>b</th><th>c</th></tr></thead><tbody><tr><td><code>d</code></td><td>e|f</td></tr></tbody></table></div><p>h</p>`},
	{"code block", "```go\na\n\n  b\n```\nc", `<div class="block"><header><span>go</span><button type="button" class="button quiet small"></button></header><pre tabindex="0"><code>a

  b</code></pre></div><p>c</p>`},
	{"code block in a list", "- a\n  ```\n  b\n  ```\n- c", `<ul><li>a<div class="block"><header><span></span><button type="button" class="button quiet small"></button></header><pre tabindex="0"><code>b</code></pre></div></li><li>c</li></ul>`},
	{"code block without an end", "~~~\n```\na", `<div class="block"><header><span></span><button type="button" class="button quiet small"></button></header><pre tabindex="0"><code>` + "```\na" + `</code></pre></div>`},
	{"HTML", "<b>a</b>\n<script>b</script>", "<p>&lt;b&gt;a&lt;/b&gt;\n&lt;script&gt;b&lt;/script&gt;</p>"},
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	b, s := newPage(t)
	for _, test := range examples {
		t.Run(test.name, func(t *testing.T) {
			shown := evaluate[[]string](b, fmt.Sprintf(`
			const { Markdown } = await load("parts/markdown.js")
			const text = %q
			const whole = document.createElement("div")
			for (const _ of new Markdown(whole, {}).all(text)) ;
			const shown = [whole.innerHTML]
			for (const size of [1, 2, 5, text.length]) {
				const root = document.createElement("div")
				const stream = new Markdown(root, {})
				for (let i = 0; i < text.length; i += size) {
					stream.append(text.slice(i, i + size))
					stream.draw()
				}
				await ended(stream)
				shown.push(root.innerHTML)
			}
			return shown`, test.text))
			for _, html := range shown {
				require.Equal(t, test.want, html)
			}
		})
	}
	b.clean(s.url)
}

// Texts of random marks are rendered equally at once and in parts, and lose no word.
func TestMarkdownOfRandomMarks(t *testing.T) {
	t.Parallel()
	b, s := newPage(t)
	faults := evaluate[[]string](b, `
	const { Markdown } = await load("parts/markdown.js")
	const marks = ["\n", "\n", "\n\n", " ", "  ", "    ", "\t", "- ", "* ", "1. ", "7) ", "> ", "# ", "---", "|", "|-|-|\n", "|a|b|\n", "\x60", "\x60\x60\x60", "\x60\x60\x60\n", "~~~", "*", "**", "***", "_", "~~", "[", "](", ")", "]", "(", "!", "\\", "<", "https://e.example/", "word", "word", "word "]
	let seed = 1
	const random = (n) => { seed = (seed * 48271) % 2147483647; return seed % n }
	const faults = []
	for (let round = 0; round < 4000 && faults.length < 5; round++) {
		let text = ""
		for (let n = random(40); n >= 0; n--) text += marks[random(marks.length)]
		const whole = document.createElement("div")
		for (const _ of new Markdown(whole, {}).all(text)) ;
		const root = document.createElement("div")
		const stream = new Markdown(root, {})
		for (let i = 0; i < text.length;) {
			const size = 1 + random(12)
			stream.append(text.slice(i, i + size))
			stream.draw()
			i += size
		}
		await ended(stream)
		if (root.innerHTML !== whole.innerHTML) faults.push(JSON.stringify(text) + ": " + whole.innerHTML + " and " + root.innerHTML)
		const words = (text) => text.split("word").length
		// Addresses of links and languages of blocks are not displayed, and a row has at most the cells
		// of the head.
		if (!/[[|\x60~]/.test(text) && words(whole.textContent) !== words(text)) faults.push(JSON.stringify(text) + ": " + whole.innerHTML)
	}
	return faults`)
	require.Empty(t, faults)
	b.clean(s.url)
}

// A text that takes longer than its budget is displayed whole, the rest of it without elements. The
// page draws in between.
func TestLongMarkdown(t *testing.T) {
	t.Parallel()
	b, s := newPage(t)
	result := evaluate[map[string]int](b, `
	const { chunkOf } = await load("parts/conversation.js")
	const text = "*word* [a](https://e.example) ".repeat(300).concat("\n\n").repeat(250) + "word at the end"
	let tasks = 0
	const timer = setInterval(() => { tasks++ })
	const chunk = await chunkOf([{ role: "assistant", content: [{ type: "text", text }] }], {})
	clearInterval(timer)
	const md = chunk.querySelector(".md")
	const texts = Array(6000).fill({ type: "text", text: "*a*" + "\n\n*word*".repeat(100) })
	const many = await chunkOf([{ role: "assistant", content: texts }], {})
	const lines = "x  y\n\n".repeat(100_000)
	const fence = "\x60".repeat(3)
	const code = (await chunkOf([{ role: "assistant", content: [{ type: "text", text: fence + "\n" + lines + fence }] }], {})).querySelector("code")
	const longest = (parts) => Math.max(...[...parts].map((e) => e.textContent.length))
	return { tasks, many: many.querySelectorAll("*").length, hidden: many.querySelectorAll(".notice").length, elements: md.querySelectorAll("*").length, words: md.textContent.split("word").length - 1, plain: md.querySelectorAll(".plain").length,
		longest: longest(md.querySelectorAll(".lines-part")), longestCode: longest(code.querySelectorAll(".lines-part")), equal: Number(code.textContent === lines.slice(0, -1)) }`)
	require.Less(t, result["many"], 50_000, "the blocks of a message have one budget")
	require.Equal(t, 1, result["hidden"], "the rest of a message with too many blocks")
	require.Equal(t, 1, result["equal"], "the whole code can be copied")
	require.Less(t, result["longestCode"], 40_000)
	require.Equal(t, 75_001, result["words"], "every word is displayed once")
	require.Less(t, result["elements"], 17_000)
	require.Positive(t, result["plain"])
	require.Less(t, result["longest"], 40_000, "browsers skip the parts that are not seen")
	require.Greater(t, result["tasks"], 2)
	b.clean(s.url)
}

// A stream draws its open part again with each frame. A list or a paragraph without an end has a
// small one.
func TestAStreamWithoutEnd(t *testing.T) {
	t.Parallel()
	b, s := newPage(t)
	result := evaluate[[]int](b, `
	const { Markdown } = await load("parts/markdown.js")
	const { readCharacters } = await load("parts/inline.js")
	const list = document.createElement("div")
	const stream = new Markdown(list, {})
	let open = 0
	const draw = (stream) => {
		while (stream.frame) stream.draw()
		const from = readCharacters()
		stream.append("")
		stream.draw()
		open = Math.max(open, readCharacters() - from)
	}
	stream.append("- begin\n")
	for (let i = 0; i < 200; i++) {
		stream.append("  - nested words\n".repeat(100))
		draw(stream)
	}
	await ended(stream)
	const root = document.createElement("div")
	const text = new Markdown(root, {})
	for (let i = 0; i < 100; i++) {
		text.append("字".repeat(1000))
		draw(text)
	}
	await ended(text)
	return [open, list.textContent.split("nested").length - 1, root.textContent.length]`)
	require.Less(t, result[0], 100_000)
	require.Equal(t, 20_000, result[1], "every word is displayed once")
	require.Equal(t, 100_000, result[2], "every character is displayed once")
	b.clean(s.url)
}
