package jsdepth_test

import (
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/jsdepth"
)

// probes are constructs that a parser reads recursively: a beginning, a part that is repeated, and
// an end.
var probes = map[string][3]string{
	"paren":      {"x=", "(", "1"},
	"dot":        {"x=a", ".a", ""},
	"call":       {"x=a", "()", ""},
	"index":      {"x=a", "[0]", ""},
	"optional":   {"x=a", "?.a", ""},
	"plus":       {"x=a", "+a", ""},
	"comma":      {"x=(a", ",a", ")"},
	"pow":        {"x=a", "**a", ""},
	"assign":     {"", "a=", "1"},
	"cond":       {"x=", "a?a:", "a"},
	"condl":      {"x=", "a?", "a"},
	"arrow":      {"x=", "a=>", "a"},
	"not":        {"x=", "!", "a"},
	"minus":      {"x=", "- ", "a"},
	"typeof":     {"x=", "typeof ", "a"},
	"new":        {"x=", "new ", "a"},
	"await":      {"async function f(){", "await ", "a}"},
	"yield":      {"function* f(){", "yield ", "a}"},
	"if":         {"", "if(a)", "a"},
	"elseif":     {"", "if(a);else ", "a"},
	"elseifb":    {"", "if(a){}else ", "a"},
	"for":        {"", "for(;;)", "a"},
	"while":      {"", "while(a)", "a"},
	"label":      {"", "a:", "a"},
	"labelu":     {"", "LABEL:", "a"},
	"template":   {"x=", "`${", "1"},
	"tagged":     {"x=a", "``", ""},
	"typearg":    {"let x:", "A<", "A"},
	"typearr":    {"let x:A", "[]", ""},
	"typeor":     {"let x:A", "|A", ""},
	"typecond":   {"let x:", "A extends A?A:", "A"},
	"typefn":     {"let x:", "()=>", "A"},
	"keyof":      {"let x:", "keyof ", "A"},
	"as":         {"x=a", " as A", ""},
	"bang":       {"x=a", "!", ""},
	"do":         {"", "do ", "a"},
	"nullish":    {"x=a", "??a", ""},
	"and":        {"x=a", "&&a", ""},
	"in":         {"x=a", " in a", ""},
	"decor":      {"", "@a ", "class A{}"},
	"cast":       {"x=", "<A>", "a"},
	"class":      {"x=", "class extends ", "a{}"},
	"strs":       {"x=", "'a'+", "'a'"},
	"regex":      {"x=/", "(", "/"},
	"stmts":      {"", "a\n", ""},
	"namespace":  {"namespace A", ".A", "{}"},
	"typedot":    {"let x:A", ".A", ""},
	"unique":     {"let x:", "unique ", "A"},
	"infer":      {"let x:A extends ", "infer A extends ", "A?A:A"},
	"spread":     {"x=[", "...", "a]"},
	"inc":        {"x=", "++", "a"},
	"void":       {"x=", "void ", "a"},
	"arrowp":     {"x=", "()=>", "a"},
	"asyncarrow": {"x=", "async a=>", "a"},
	"switch":     {"", "switch(a){default:", ""},
	"dowhile":    {"", "do{", ""},
	"objs":       {"x=", "{a:", "1"},
	"objsc":      {"x=", "{a:", "1"},
	"try":        {"", "try{", ""},
	"fn":         {"", "function f(){", ""},
	"declare":    {"", "declare ", "let a"},
	"export":     {"", "export ", "let a"},
}

// Files that would need much stack or time are rejected before a parser reads them.
func TestDeepFiles(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(64 << 20))
	for name, probe := range probes {
		t.Run(name, func(t *testing.T) {
			for _, separator := range []string{"", "\n/* ) ] } */ "} {
				for _, size := range []int{150, 15_000, 200_000} {
					part := strings.TrimSuffix(probe[1], "\n") + separator
					if probe[1] == "a\n" {
						part = probe[1]
					}
					source := probe[0] + strings.Repeat(part, size/len(part)+1) + probe[2]
					began := time.Now()
					err := jsdepth.Check(source)
					require.Less(t, time.Since(began), 30*time.Second)
					if err == nil {
						began = time.Now()
						api.Transform(source, api.TransformOptions{Loader: api.LoaderTS, LogLevel: api.LogLevelSilent})
						require.Less(t, time.Since(began), 2*time.Minute, "%d bytes", size)
					}
				}
			}
		})
	}
}

// Brackets that the parser sees are not hidden in what looks like a text, a comment or a regular
// expression.
func TestHiddenBrackets(t *testing.T) {
	deep := strings.Repeat("(", 300)
	for name, source := range map[string]string{
		"plain":                     "x = " + deep,
		"after a text":              `x = "(" + ` + deep,
		"after an escape":           `x = "\\" + ` + deep + `"`,
		"after a division":          "x = a / " + deep + " /",
		"after a call":              "x = a() / " + deep + " /",
		"after an index":            "x = a[0] / " + deep + " /",
		"after a number":            "x = 1 / " + deep + " /",
		"after 1.":                  "x = 1. / " + deep + " /",
		"after a member":            "x = a.return / " + deep + " /",
		"after an optional member":  "x = a?.typeof / " + deep + " /",
		"after an increment":        "x = a++ / " + deep + " /",
		"after a non-null":          "x = a! / " + deep + " /",
		"after this":                "x = this / " + deep + " /",
		"after a name with escape":  "x = \\u0072eturn / " + deep + " /",
		"after a cast":              "x = a as any / " + deep + " /",
		"after a cast to void":      "x = a as void / " + deep + " /",
		"after a cast to generics":  "x = a as A<B> / " + deep + " /",
		"after a cast to an object": "x = a as {a: 1} / " + deep + " /",
		"after an object":           "x = {} / " + deep + " /",
		"after a template":          "x = `` / " + deep + " /",
		"after a substitution":      "x = `${1}` / " + deep + " /",
		"in a substitution":         "x = `${`${" + deep + "}`}`",
		"regex with a quote":        "if (a) /'/; " + deep,
		"regex after a block":       "{} /'/; " + deep,
		"regex with a class":        "x = /[/]'/; " + deep,
		"line separator":            "// \u2028 " + deep,
		"carriage return":           "// \r " + deep,
		"HTML comment":              strings.Repeat("(<!-- )\n", 300),
		"HTML comment's end":        strings.Repeat("(\n--> )\n", 300),
		"closers in texts":          strings.Repeat("(')', ", 300),
		"closers in templates":      strings.Repeat("(`)`, ", 300),
		"closers in regexes":        strings.Repeat("(/)/, ", 300),
		"closers in comments":       strings.Repeat("(/*)*/", 300),
		"other closers":             strings.Repeat("(]", 300),
		"odd space":                 "return\u00a0/'/; " + deep,
		"hashbang is first":         " #!" + deep,
		"of":                        "for (x of /'/) " + deep,
		"await":                     "await /'/; " + deep,
		"yield":                     "yield /'/; " + deep,
	} {
		t.Run(name, func(t *testing.T) {
			err := jsdepth.Check(source)
			require.Error(t, err)
			require.Regexp(t, `^\d+:\d+: (brackets|a slash|HTML)`, err.Error())
		})
	}
}

// Files as written by hand and by bundlers.
func TestUsualFiles(t *testing.T) {
	for name, source := range map[string]string{
		"empty":            "",
		"quotes":           `x = "(((" + '[[[' + ` + "`{{{`",
		"regexes":          "x = s.replace(/[/(]+/g, '').match(/\\(/) ; return /(/.test(s) && typeof /[)/]/",
		"arrow to a regex": "const f = s => /((((/.test(s)",
		"division":         "x = (a + b) / c / d[0] / 2 / f(x) / this.y",
		"names":            "const type = 1, of = 2, get = 3; x = type / get; set(out / 2)",
		"template":         "x = `a ${b} / ${`c ${d}`} ' `",
		"long array":       "x = [" + strings.Repeat("1, ", 100_000) + "]",
		"long object":      "x = {" + strings.Repeat("a: 1, ", 50_000) + "}",
		"long table":       "export default [" + strings.Repeat(`{"a": [1, 2, -3], "b": {"c": "d"}}, `, 20_000) + "]",
		"statements":       strings.Repeat("x.y = a + b\n", 50_000),
		"with semicolons":  strings.Repeat("x.y = !a + b();", 50_000),
		"functions":        strings.Repeat("function f(a, b) { if (a) return b; else { return -a } }\n", 10_000),
		"declarations":     strings.Repeat("export interface A { a: string }\ntype B = A | 'x'\n", 10_000),
		"class":            "class A {" + strings.Repeat("a = 1\nasync b() { await this.c() }\n", 10_000) + "}",
		"else if":          strings.Repeat("if (a == 1) { b() } else ", 300) + "{}",
		"concatenation":    "x = " + strings.Repeat("'line' +\n", 1500) + "''",
		"cases":            "switch (a) {" + strings.Repeat("case 1: b(); break\n", 10_000) + "}",
		"union":            "type A = " + strings.Repeat("| 'a' ", 1500),
		"sequence":         strings.Repeat("a(),b=1,", 5000) + "c",
		"nested":           strings.Repeat("[", 190) + strings.Repeat("]", 190),
		"generics":         "const m = new Map<string, Array<Record<string, Set<number>>>>()",
		"shebang":          "#!/usr/bin/env node ((\nx",
		"jsx-like":         "x = a < b && c > (d)",
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			require.NoError(t, jsdepth.Check(source))
			require.Less(t, time.Since(began), 30*time.Second)
		})
	}
}

func TestError(t *testing.T) {
	err := jsdepth.Check("let a = 1\nlet é = " + strings.Repeat("[", 201))
	require.EqualError(t, err, "2:210: brackets are nested deeper than 200 levels")
}

// A file that passes needs little stack in the parser. A stack overflow ends the test.
func FuzzCheck(f *testing.F) {
	for _, probe := range probes {
		f.Add(probe[0], probe[1], probe[2], "")
		f.Add(probe[0], probe[1], probe[2], "/'/ ")
	}
	debug.SetMaxStack(48 << 20)
	f.Fuzz(func(t *testing.T, start, part, end, other string) {
		if len(start)+len(part)+len(end)+len(other) > 200 {
			return
		}
		source := start + strings.Repeat(part+other, 100_000/(len(part)+len(other)+1)) + end
		if jsdepth.Check(source) == nil {
			api.Transform(source, api.TransformOptions{Loader: api.LoaderTS, LogLevel: api.LogLevelSilent})
		}
	})
}
