package skill_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
)

// document is a skill.Document without its type.
type document struct{ Name, Description, Body string }

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       document
		err        string // part of it
	}{
		{"plain", "---\nname: a\ndescription: b\n---\nc\n", document{"a", "b", "c"}, ""},
		{"other keys", "---\nlicense: MIT\nname: a\nallowed-tools: [Read]\nmetadata: {name: x}\ndescription: b\n---",
			document{"a", "b", ""}, ""},
		{"byte order mark", "\ufeff---\nname: a\ndescription: b\n---\nc", document{"a", "b", "c"}, ""},
		{"CRLF", "---\r\nname: a\r\ndescription: >\r\n  b\r\n  c\r\n---\r\n\r\nd\r\ne\r\n", document{"a", "b c", "d\r\ne"}, ""},
		{"CRLF, not YAML", "---\r\nname: a\r\ndescription: b: c\r\n---\r\nd", document{"a", "b: c", "d"}, "line by line"},
		{"blanks after fences and lines before", "\n \n--- \nname: a\n---\t\nc", document{"a", "", "c"}, ""},
		{"fence at the end", "---\nname: a\n---", document{"a", "", ""}, ""},
		{"indented fence is text", "---\nname: a\ndescription: |\n  b\n  ---\n  c\n---\nd", document{"a", "b\n---\nc", "d"}, ""},
		{"longer fence is text", "---\nname: a\n----\n---\nb", document{"a", "", "b"}, "line by line"},
		{"rulers in the body", "---\nname: a\n---\n\nb\n---\nc: d\n---\n", document{"a", "", "b\n---\nc: d\n---"}, ""},
		{"body that begins with code", "---\nname: a\n---\n\n \n    code\n", document{"a", "", "    code"}, ""},
		{"text before", "x\n---\nname: a\n---\n", document{"", "", "x\n---\nname: a\n---"}, "does not begin with frontmatter"},

		{"literal", "---\ndescription: |\n  one\n  two\n\n  three\n---", document{"", "one\ntwo\n\nthree", ""}, ""},
		{"folded", "---\ndescription: >-\n  one\n  two\n\n  three\n---", document{"", "one two\nthree", ""}, ""},
		{"continued", "---\ndescription: one\n  two\n---", document{"", "one two", ""}, ""},
		{"quoted", "---\nname: \"a\\tb\"\ndescription: 'it''s: \"so\"' # note\n---", document{"a b", `it's: "so"`, ""}, ""},
		{"escapes", `---` + "\n" + `description: "a\0b\e[31mc\nd\rA"` + "\n---", document{"", "ab[31mc\ndA", ""}, ""},
		{"name on lines", "---\nname: |\n  a\n   b\n---", document{"a b", "", ""}, ""},
		{"other scalars", "---\nname: 0x10\ndescription: 2026-01-02\n---", document{"0x10", "2026-01-02", ""}, ""},
		{"alias", "---\nname: &n a\ndescription: *n\n---", document{"a", "a", ""}, ""},
		{"JSON", "---\n{\"name\": \"a\", \"description\": \"b\"}\n---", document{"a", "b", ""}, ""},
		{"Chinese", "---\nname: 文档\ndescription: 处理文档：当用户需要时\n---\n正文", document{"文档", "处理文档：当用户需要时", "正文"}, ""},

		{"colon", "---\nname: a\ndescription: Use this: when\n---", document{"a", "Use this: when", ""}, "line by line"},
		{"colon, continued", "---\ndescription: Use this: when\n  it rains\n\n  or snows\nname: a\n---",
			document{"a", "Use this: when it rains or snows", ""}, "line by line"},
		{"bracket", "---\nname: a\ndescription: [WIP] does it\n---", document{"a", "[WIP] does it", ""}, "line by line"},
		{"placeholder", "---\nname: {{ name }}\ndescription: b\n---", document{"", "b", ""}, "line by line"},
		{"star and at", "---\nname: @a\ndescription: *bold* text\n---", document{"", "*bold* text", ""}, "line by line"},
		{"percent and backtick", "---\nname: `a`\ndescription: %b\n---", document{"", "%b", ""}, "line by line"},
		{"quotes in quotes", "---\nname: a\ndescription: \"Use \"it\" now\"\n---", document{"a", `Use "it" now`, ""},
			"line by line"},
		{"quote that is not closed", "---\ndescription: \"abc\nname: a\n---", document{"a", `"abc`, ""}, "line by line"},
		{"text after quotes", "---\nname: a\ndescription: 'b' and c\n---", document{"a", "'b' and c", ""}, "line by line"},
		{"tab in a block", "---\nname: a\ndescription: >-\n\tb\n\tc\n---", document{"a", "b c", ""}, "line by line"},
		{"no blank after the colon", "---\nname:a\ndescription:b\n---", document{"a", "b", ""}, "line by line"},
		{"name that is not closed", "---\nname: [broken\ndescription: b\n---", document{"", "b", ""}, "line by line"},
		{"name with a quote", "---\nname: \"broken\n---", document{"", "", ""}, "line by line"},
		{"name with a colon", "---\nname: a: b\n---", document{"", "", ""}, "line by line"},
		{"name after no blank", "---\nname:Größe 3_b.c-文档\n---", document{"Größe 3_b.c-文档", "", ""}, "line by line"},
		{"name of YAML beside a broken line", "---\nname: '[a] (b)'\nx: y: z\n---", document{"[a] (b)", "", ""}, "line by line"},
		{"another key is broken", "---\nname: \"a\\u0041\"\nx: y: z\ndescription: |\n  b\n  c\n---",
			document{"aA", "b\nc", ""}, "line by line"},
		{"key twice: the first", "---\nname: a\nname: b\n---", document{"a", "", ""}, ""},
		{"key twice, not YAML", "---\nname: a\nname: b\nx: y: z\n---", document{"a", "", ""}, "line by line"},
		{"list in JSON", "---\n{\"name\": [1], \"description\": \"b\"}\n---", document{"", "b", ""}, "name is not a text"},
		{"lists", "---\nname: [a]\ndescription:\n  - b\n  - c\n---", document{"", "- b - c", ""}, "line by line"},
		{"keys that begin alike", "---\nx: y: z\nname2: b\nnames: c\n# name: d\n name: e\n---", document{"", "", ""},
			"line by line"},
		{"a list", "---\n- name: a\n---\nb", document{"", "", "b"}, "line by line"},
		{"line of the error", "---\nname: a\nx: y: z\n---", document{"a", "", ""}, "line 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			doc, err := skill.Parse([]byte(tc.text))
			require.Equal(t, tc.want, document{doc.Name, doc.Description, doc.Body})
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
}

// TestParseIsFast has input that makes YAML decoders slow. Each takes less than 0.2 s; decoding a
// repeated key took minutes and all memory.
func TestParseIsFast(t *testing.T) {
	fill := func(s string) string { return strings.Repeat(s, 65000/len(s)) }
	bomb := "a0: &a0 [x]\n"
	for i := range 9 {
		n := string(rune('0' + i))
		bomb += "a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat("*a"+n+",", 50) + "]\n"
	}
	for name, front := range map[string]string{
		"brackets": fill("["), "braces": fill("{"), "open maps": fill("{a: "), "dashes": fill("- "), "questions": fill("? "),
		"colons": fill(": "),
		"quotes": fill(`"a" `), "anchors": fill("&a "), "tags": fill("!a "), "comments": fill("#\n"), "empty lines": fill("\n"),
		"names": fill("name: [\n"),
		"keys":  fill("a: b\n"), "keys below name": "name:\n" + fill(" a: b\n"), "keys not YAML": fill("a: b\n") + "x: y: z",
		"nested": fill(" ") + "a", "block": "name: |\n" + fill("  a\n"), "aliases": bomb + "name: *a9\n", "lists": fill("- [{a: "),
		"merges": "a: &a {b: c}\nd:\n" + fill("  <<: *a\n"),
	} {
		start := time.Now()
		_, _ = skill.Parse([]byte("---\n" + front + "\n---\n"))
		took := time.Since(start)
		require.Less(t, took, time.Minute, name)
	}
}
