package toolfile_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/catalog/toolfile"
)

const rest = `description: "d", inputSchema: {type: "object", name: "no"}, async call({name}: {name: string}) { return {name: "no"} }`

func TestNameOfTheDefaultExport(t *testing.T) {
	t.Parallel()
	for label, source := range map[string]string{
		"object":                "export default {name: 'a', " + rest + "}",
		"semicolon":             "export default {name: 'a', " + rest + "};\n",
		"double quotes":         `export default {"name": "a"}`,
		"template":              "export default {'name': `a`, " + rest + "}",
		"as const":              "export default {name: 'a' as const, " + rest + "} as const",
		"satisfies":             "export default {name: 'a', " + rest + "} satisfies Tool<Input, {name: 'b'}>\nconst x = 1",
		"as and satisfies":      "export default {name: 'a' satisfies string} as const satisfies Tool | Other;",
		"last":                  "export default {" + rest + ", name: 'a'}",
		"repeated":              "export default {name: 'b', name: 'a'}",
		"after a spread":        "export default {...base, [key]: 1, name: 'a', " + rest + "}",
		"defineTool":            "import {defineTool} from 'agenthost'\nexport default defineTool({name: 'a', " + rest + "})",
		"type arguments":        "export default defineTool<Input, Map<string, {name: 'b'}>>({name: 'a'},);",
		"in parentheses":        "export default (({name: 'a'} as const) satisfies Tool)",
		"constant":              "const t = {name: 'a', " + rest + "}\nexport default t",
		"constant with a type":  "const t: Tool<{name: 'b'}> = {name: 'a'}\nexport default t;",
		"constant, tight type":  "const t: Tool<Input>= {name: 'a'}\nexport default t as Tool",
		"exported constant":     "export const t = defineTool({name: 'a'})\nexport default t satisfies Tool\n",
		"in a list":             "const t = {name: 'a'}; export { t as default }",
		"list first":            "export { x, t as default, y };\nconst x = 1, t = {name: 'a'}, y = 2",
		"list with a text":      "const t = {name: 'a'}\nexport {t as 'default'}",
		"two constants":         "const b = {name: 'a'}\nconst t = b\nexport default t",
		"the name as a word":    "const name = {name: 'a'}; export default name",
		"accessors":             "export default {get x() { return 1 }, set name2(v) {}, async *y() {}, *z() {}, get: 1, async: 2, name: 'a'}",
		"generic methods":       "export default {call: async <A, B>(x: A) => f<A, name>(x), map<T>(x: T) {}, name: 'a'}",
		"functions before":      "function f() { return {name: 'no'} }\nconst export1 = 1\nexport function g() {}\nexport * from 'x'\nexport default {name: 'a'}",
		"regular expressions":   "const r = /}{'/g, s = a / b / c\nexport default {match: /name: 'b'/, name: 'a'}",
		"comments":              "// export default {name: 'b'}\n/* export default 1 */ export /* x */ default { // name: 'b'\nname /* x */ : 'a' }",
		"texts":                 "const s = \"export default {name: 'b'}\" + `export default {${{name: 'c'}.name}}`\nexport default {name: 'a'}",
		"byte order mark":       "\uFEFFexport default {name: 'a'}",
		"hash bang":             "#!/usr/bin/env node\nexport default {name: 'a'}",
		"CRLF":                  "const t = {\r\n  name: 'a',\r\n}\r\nexport default t\r\n",
		"enum":                  "enum E { A = 'x', B = A + A }\nexport const enum F { A }\nexport default {name: 'a', kind: E.B}",
		"class and decorators":  "@d class A { @x y = 1; static {} #z = 2 }\nexport default {name: 'a'}\n@d class B {}",
		"another default":       "export { default as x } from 'y'\nexport default {name: 'a'}",
		"statement after":       "export default {name: 'a'}\nfoo()",
		"type after a new line": "export default {name: 'a'} as\nTool |\nOther\nlet x = 1",
	} {
		t.Run(label, func(t *testing.T) {
			name, err := toolfile.Name("a.ts", source)
			require.NoError(t, err)
			require.Equal(t, "a", name)
		})
	}
	long := strings.Repeat("a", 64)
	name, err := toolfile.Name("a.mjs", "export default {name: '"+long+"'}")
	require.NoError(t, err)
	require.Equal(t, long, name)
}

func TestFilesWithoutAName(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                                                            "1:1: there is no default export",
		"module.exports = {name: 'a'}":                                "1:29: there is no default export",
		"export const t = {name: 'a'}":                                "there is no default export",
		"export default 1":                                            "1:16: the default export must be",
		"export default function f() {}":                              "1:16: the default export must be",
		"export default class {}":                                     "1:16: the default export must be",
		"export default () => ({name: 'a'})":                          "1:17: the default export must be",
		"export default make({name: 'a'})":                            "1:20: the default export must be",
		"export default {name: 'a'}.x":                                "1:27: the default export must be",
		"export default {name: 'a'} || x":                             "1:28: the default export must be",
		"export default {name: 'a'} as T && x":                        "1:33: the default export must be",
		"export default ({name: 'a'}, x)":                             "1:30: the default export must be",
		"export default {name: 'a'}\n(x)":                             "2:1: the default export must be",
		"export default {name: 'a'}\n`x`":                             "2:1: the default export must be",
		"export default defineTool":                                   "1:26: the default export must be",
		"export default t":                                            "1:16: t is not a constant of this file",
		"let t = {name: 'a'}; export default t":                       "1:5: declare t with const",
		"const f = () => { const t = {name: 'a'} }\nexport default t": "2:16: t is not a constant of this file",
		"const t = t; export default t":                               "the default export must be",
		"import t from 'x'\nexport default t":                         "2:16: t is not a constant of this file",
		"export { t as default } from './t'":                          "1:25: the default export is in another file",
		"export default {}":                                           "1:16: the object has no name",
		"export default {...base}":                                    "1:16: the object has no name",
		"export default {\n  name: 'a' + 'b'}":                        "2:13: the name must be a string",
		"export default {\n  name: `a${1}`}":                          "2:11: the name must be a string",
		"export default {name: x}":                                    "1:23: the name must be a string",
		"export default {name: 1}":                                    "1:23: the name must be a string",
		"export default {name: /a/}":                                  "1:23: the name must be a string",
		"export default {name: '\\x61'}":                              "1:23: the name must be a string",
		"export default {name}":                                       "1:17: the name must be a string",
		"export default {name() {}}":                                  "1:17: the name must be a string",
		"export default {get name() { return 'a' }}":                  "1:21: the name must be a string",
		"export default {name: 'a', ...base}":                         "1:28: this property can replace the name",
		"export default {name: 'a', ['na' + 'me']: 'b'}":              "1:28: this property can replace the name",
		"export default {name: 'a', n\\u0061me: 'b'}":                 "1:28: this property can replace the name",
		"export default {name: ''}":                                   `1:23: the name ""`,
		"export default {name: 'a b'}":                                `1:23: the name "a b"`,
		"export default {name: '1a'}":                                 `1:23: the name "1a"`,
		"export default {name: '" + strings.Repeat("a", 65) + "'}":    "1:23: the name",
		"export default {name: 'a'":                                   "1:26: the name must be a string",
		"export default {name: 'a', call() { 1 + }}":                  `1:41: Unexpected "}"`,
		"export default {name: 'a'}\nlet é = ;":                       `2:10: Unexpected ";"`,
		"export default {name: 'a'}\n\xff":                            "the file is not UTF-8",
		strings.Repeat("(", 400):                                      "1:201: brackets are nested deeper than 200 levels",
	} {
		_, err := toolfile.Name("a.ts", source)
		require.ErrorContains(t, err, want, "%s", source)
		require.ErrorAs(t, err, new(*toolfile.Error))
		require.Less(t, len(err.Error()), 300)
	}
	_, err := toolfile.Name("a.js", "let x: number = 1\nexport default {name: 'a'}")
	require.EqualError(t, err, `1:6: Expected ";" but found ":"`)
}

func TestFileNames(t *testing.T) {
	for _, file := range []string{"a.ts", "a.mts", "a.js", "a.mjs", "a.d.ts"} {
		require.True(t, toolfile.ValidFile(file), file)
	}
	for _, file := range []string{"", "a", "a.tsx", "a.cjs", "a.TS", "ts", "a.ts/", "a.ts.exe"} {
		require.False(t, toolfile.ValidFile(file), file)
	}
}

// No file takes long or much memory. The time is linear in the size.
func TestHostileFilesAreReadInBoundedTime(t *testing.T) {
	const size = 1 << 20
	fill := func(begin, part, end string) string {
		return begin + strings.Repeat(part, (size-len(begin)-len(end))/len(part)) + end
	}
	for label, source := range map[string]string{
		"doubling":       "enum E {A='x'," + strings.Repeat("B=A+A,A=B+B,", 30) + "}\nexport default {name: 'a'}",
		"inserted enums": "const enum E {A='" + strings.Repeat("x", 60<<10) + "'}\n" + strings.Repeat("f(E.A);", 20_000) + "\nexport default {name: 'a'}",
		"functions":      fill("", "function f(){a()};", "\nexport default {name: 'a'}"),
		"names":          fill("", "var a;", "\nexport default {name: 'a'}"),
		"constants":      fill("", "const a = {}\n", "export default b"),
		"exports":        fill("", "export {a as b};", ""),
		"properties":     fill("export default {", "name: 'a',", "}"),
		"methods":        fill("export default {", "get a(){},", "name: 'a'}"),
		"types":          fill("export default {name: 'a'} as A", "|A", ""),
		"arguments":      fill("export default defineTool<", "A,", ">({name: 'a'})"),
		"template":       fill("export default {x: `", "${a}", "`, name: 'a'}"),
		"text":           fill("export default {x: '", "a", "', name: 'a'}"),
		"comment":        fill("/*", "a", "*/export default {name: 'a'}"),
		"lines":          fill("", "\n", "export default {name: 'a'}"),
		"array":          fill("export default {x: [", "1,", "], name: 'a'}"),
	} {
		t.Run(label, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := toolfile.Name("a.ts", source)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			require.Less(t, took, 10*time.Second)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
			if e, ok := errors.AsType[*toolfile.Error](err); err != nil {
				require.True(t, ok, "%v", err)
				require.NotZero(t, e.Line)
			}
		})
	}
}

func FuzzName(f *testing.F) {
	for _, source := range []string{
		"export default {name: 'a'}", "const t: A<B>= {name: `a`} as const; export {t as default}", "export default defineTool<A>({...x, name: 'a'})",
		"enum E {A = `${1}`}\nexport default (({name: 'a'}) satisfies T)", "export default {get name() {}, async *[x]() {}}",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		name, err := toolfile.Name("a.ts", source)
		if err == nil {
			require.True(t, toolfile.ValidName(name))
		}
	})
}
