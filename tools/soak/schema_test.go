package soak_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// chain returns a schema whose definitions each refer twice to the next one.
func chain(n int, keyword string) string {
	return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d0","$defs":{%s"d%d":{}}}`, repeat(n, func(i int) string {
		return fmt.Sprintf(`"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, keyword, i+1, i+1)
	}), n)
}

func repeat(n int, part func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(part(i))
	}
	return b.String()
}

// usable are the hostile schemas with which a tool is offered: validating its input is bounded.
var usable = []string{"pattern", "tree", "enum", "numbers", "remote", "content", "unevaluated", "keys", "definitions", "prefixes"}

// hostileSchemas are the schemas of tools by name.
var hostileSchemas = map[string]string{
	"cycle":       `{"type":"object","allOf":[{"$ref":"#"}]}`,
	"dynamic":     `{"type":"object","$dynamicAnchor":"a","anyOf":[{"$dynamicRef":"#a"}]}`,
	"recursive":   `{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","$recursiveAnchor":true,"allOf":[{"$recursiveRef":"#"},{"$ref":"#"}]}`,
	"doubling":    chain(40, "allOf"),
	"prefixes":    chain(30, "prefixItems"),
	"patterns":    `{"type":"object","patternProperties":{` + repeat(2999, func(i int) string { return fmt.Sprintf(`"^x%d(a|b){9}":{},`, i) }) + `"x":{}}}`,
	"repetition":  `{"type":"object","properties":{"text":{"pattern":"` + strings.Repeat("(a{1000})", 100) + `"}}}`,
	"definitions": strings.Repeat(`{"type":"object","$defs":{"a":`, 90) + `{}` + strings.Repeat(`}}`, 90),
	"pattern":     `{"type":"object","properties":{"text":{"type":"string","pattern":"^((a|aa)+)+$"}}}`,
	"tree":        `{"type":"object","properties":{"a":{"$ref":"#"},"text":{"type":"string"}},"additionalProperties":{"$ref":"#"}}`,
	"enum":        `{"type":"object","properties":{"text":{"enum":[` + repeat(3_900, func(i int) string { return fmt.Sprintf("%d,", i) }) + `0]}}}`,
	"numbers":     `{"type":"object","properties":{"a":{"const":1e308,"minimum":-1e308,"multipleOf":1e-307}}}`,
	"remote":      `{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/schema"}}}`,
	"content":     `{"type":"object","properties":{"text":{"contentMediaType":"application/json","contentSchema":{"$ref":"#"}}}}`,
	"unevaluated": `{"type":"object","anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}],"unevaluatedProperties":{"type":"string"}}`,
	"keys":        `{"type":"object","type":"object","properties":{"a":{"type":"string"},"a":{"not":{}}},"properties":{}}`,
}

var schemaNames = slices.Sorted(maps.Keys(hostileSchemas))

// inputs are inputs of the tools.
var inputs = []string{
	`{"text":"` + strings.Repeat("a", mib) + `b"}`,
	strings.Repeat(`{"a":`, 5000) + `{}` + strings.Repeat(`}`, 5000),
	`{"a":1` + repeat(100_000, func(i int) string { return fmt.Sprintf(`,"x%d":0`, i) }) + `}`,
	`{"a":[` + strings.Repeat("1e308,", 100_000) + `0]}`,
	`{"a":1e308,"a":"` + strings.Repeat("é", 100_000) + `"}`,
	`{"mode":"end"}`,
}

func schemas(t *testing.T) attack {
	var files []string
	for _, name := range schemaNames {
		files = append(files, name+".ts", toolFile(name, "", hostileSchemas[name], `return "done"`))
	}
	s := startRuntime(t, fmt.Sprintf("stdio: {transport: stdio, command: %q, args: [mcp, schemas]}, http: {transport: http, url: %q}", self, serve(t, &peer{schemas: true})), "", files...)
	return attack{server: s, pause: 250 * time.Millisecond, other: s.goodRun, step: func(ctx context.Context, n int) error {
		name, prefix := schemaNames[n/3%len(schemaNames)], []string{"", "mcp__stdio__", "mcp__http__"}[n%3]
		var want []string
		if slices.Contains(usable, name) {
			want = []string{"result: done", "result: Error: The input", "result: Error: mcp server", late}
		}
		if prefix != "" || want == nil { // a third of the tools is not listed
			want = append(want, "result: Error: There is no tool")
		}
		if err := s.expect(ctx, "bad", prefix+name+" "+inputs[n%len(inputs)], want...); err != nil {
			return err
		}
		return s.expect(ctx, "bad", `mcp__stdio__attack {"mode":"none"}`, "result: done", late)
	}}
}
