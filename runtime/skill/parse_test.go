package skill_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/skill"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       skill.Document
		err        string // part of it
	}{
		{"plain", "---\nname: a\ndescription: b\n---\nc\n", skill.Document{"a", "b", "c"}, ""},
		{"other keys", "---\nlicense: MIT\nname: a\nallowed-tools: [Read]\nmetadata: {name: x}\ndescription: b\n---",
			skill.Document{"a", "b", ""}, ""},
		{"byte order mark", "\ufeff---\nname: a\ndescription: b\n---\nc", skill.Document{"a", "b", "c"}, ""},
		{"CRLF", "---\r\nname: a\r\ndescription: >\r\n  b\r\n  c\r\n---\r\n\r\nd\r\ne\r\n", skill.Document{"a", "b c", "d\r\ne"}, ""},
		{"CRLF, not YAML", "---\r\nname: a\r\ndescription: b: c\r\n---\r\nd", skill.Document{"a", "b: c", "d"}, "line by line"},
		{"blanks after fences and lines before", "\n \n--- \nname: a\n---\t\nc", skill.Document{"a", "", "c"}, ""},
		{"fence at the end", "---\nname: a\n---", skill.Document{"a", "", ""}, ""},
		{"indented fence is text", "---\nname: a\ndescription: |\n  b\n  ---\n  c\n---\nd", skill.Document{"a", "b\n---\nc", "d"}, ""},
		{"longer fence is text", "---\nname: a\n----\n---\nb", skill.Document{"a", "", "b"}, "line by line"},
		{"rulers in the body", "---\nname: a\n---\n\nb\n---\nc: d\n---\n", skill.Document{"a", "", "b\n---\nc: d\n---"}, ""},
		{"body that begins with code", "---\nname: a\n---\n\n \n    code\n", skill.Document{"a", "", "    code"}, ""},
		{"text before", "x\n---\nname: a\n---\n", skill.Document{"", "", "x\n---\nname: a\n---"}, "does not begin with frontmatter"},

		{"literal", "---\ndescription: |\n  one\n  two\n\n  three\n---", skill.Document{"", "one\ntwo\n\nthree", ""}, ""},
		{"folded", "---\ndescription: >-\n  one\n  two\n\n  three\n---", skill.Document{"", "one two\nthree", ""}, ""},
		{"continued", "---\ndescription: one\n  two\n---", skill.Document{"", "one two", ""}, ""},
		{"quoted", "---\nname: \"a\\tb\"\ndescription: 'it''s: \"so\"' # note\n---", skill.Document{"a b", `it's: "so"`, ""}, ""},
		{"escapes", `---` + "\n" + `description: "a\0b\e[31mc\nd\rA"` + "\n---", skill.Document{"", "ab[31mc\ndA", ""}, ""},
		{"name on lines", "---\nname: |\n  a\n   b\n---", skill.Document{"a b", "", ""}, ""},
		{"other scalars", "---\nname: 0x10\ndescription: 2026-01-02\n---", skill.Document{"0x10", "2026-01-02", ""}, ""},
		{"alias", "---\nname: &n a\ndescription: *n\n---", skill.Document{"a", "a", ""}, ""},
		{"JSON", "---\n{\"name\": \"a\", \"description\": \"b\"}\n---", skill.Document{"a", "b", ""}, ""},
		{"Chinese", "---\nname: 文档\ndescription: 处理文档：当用户需要时\n---\n正文", skill.Document{"文档", "处理文档：当用户需要时", "正文"}, ""},

		{"colon", "---\nname: a\ndescription: Use this: when\n---", skill.Document{"a", "Use this: when", ""}, "line by line"},
		{"colon, continued", "---\ndescription: Use this: when\n  it rains\n\n  or snows\nname: a\n---",
			skill.Document{"a", "Use this: when it rains or snows", ""}, "line by line"},
		{"bracket", "---\nname: a\ndescription: [WIP] does it\n---", skill.Document{"a", "[WIP] does it", ""}, "line by line"},
		{"placeholder", "---\nname: {{ name }}\ndescription: b\n---", skill.Document{"", "b", ""}, "line by line"},
		{"star and at", "---\nname: @a\ndescription: *bold* text\n---", skill.Document{"", "*bold* text", ""}, "line by line"},
		{"percent and backtick", "---\nname: `a`\ndescription: %b\n---", skill.Document{"", "%b", ""}, "line by line"},
		{"quotes in quotes", "---\nname: a\ndescription: \"Use \"it\" now\"\n---", skill.Document{"a", `Use "it" now`, ""},
			"line by line"},
		{"quote that is not closed", "---\ndescription: \"abc\nname: a\n---", skill.Document{"a", `"abc`, ""}, "line by line"},
		{"text after quotes", "---\nname: a\ndescription: 'b' and c\n---", skill.Document{"a", "'b' and c", ""}, "line by line"},
		{"tab in a block", "---\nname: a\ndescription: >-\n\tb\n\tc\n---", skill.Document{"a", "b c", ""}, "line by line"},
		{"no blank after the colon", "---\nname:a\ndescription:b\n---", skill.Document{"a", "b", ""}, "line by line"},
		{"name that is not closed", "---\nname: [broken\ndescription: b\n---", skill.Document{"", "b", ""}, "line by line"},
		{"name with a quote", "---\nname: \"broken\n---", skill.Document{"", "", ""}, "line by line"},
		{"name with a colon", "---\nname: a: b\n---", skill.Document{"", "", ""}, "line by line"},
		{"name after no blank", "---\nname:Größe 3_b.c-文档\n---", skill.Document{"Größe 3_b.c-文档", "", ""}, "line by line"},
		{"name of YAML beside a broken line", "---\nname: '[a] (b)'\nx: y: z\n---", skill.Document{"[a] (b)", "", ""}, "line by line"},
		{"another key is broken", "---\nname: \"a\\u0041\"\nx: y: z\ndescription: |\n  b\n  c\n---",
			skill.Document{"aA", "b\nc", ""}, "line by line"},
		{"key twice: the first", "---\nname: a\nname: b\n---", skill.Document{"a", "", ""}, ""},
		{"key twice, not YAML", "---\nname: a\nname: b\nx: y: z\n---", skill.Document{"a", "", ""}, "line by line"},
		{"list in JSON", "---\n{\"name\": [1], \"description\": \"b\"}\n---", skill.Document{"", "b", ""}, "name is not a text"},
		{"lists", "---\nname: [a]\ndescription:\n  - b\n  - c\n---", skill.Document{"", "- b - c", ""}, "line by line"},
		{"keys that begin alike", "---\nx: y: z\nname2: b\nnames: c\n# name: d\n name: e\n---", skill.Document{"", "", ""},
			"line by line"},
		{"a list", "---\n- name: a\n---\nb", skill.Document{"", "", "b"}, "line by line"},
		{"line of the error", "---\nname: a\nx: y: z\n---", skill.Document{"a", "", ""}, "line 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			doc, err := skill.Parse([]byte(tc.text))
			require.Equal(t, tc.want, doc)
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
		require.Less(t, took, 5*time.Second, name)
	}
}
