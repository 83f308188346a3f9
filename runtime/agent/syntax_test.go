package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

func TestSyntaxFaults(t *testing.T) {
	for _, tc := range []struct {
		name, file, data, want string
	}{
		{"empty", "f.yaml", "", "f.yaml:1: the file is empty; at least the key agents is required"},
		{"blank JSON", "f.json", " \n", "f.json:1: the file is empty; at least the key agents is required"},
		{"only comments", "f.yaml", "# agents:\n#  - id: a\n", "f.yaml:1: the file is empty; at least the key agents is required"},
		{"only a document mark", "f.yaml", "---\n", "f.yaml:1: must be a map, not null; omit the key if it is not needed"},
		{"two documents", "f.yaml", "agents: []\n---\nagents: []\n",
			"f.yaml:2: a second document begins here; a configuration is one document"},
		{"not UTF-8", "f.yaml", "agents: []\ncwd: \xff", "f.yaml:2: not UTF-8"},
		{"UTF-16", "f.yaml", "\xff\xfea\x00", "f.yaml:1: not UTF-8"},
		{"control character", "f.yaml", "agents: []\ncwd: \x01", "f.yaml:2: control characters are not allowed"},
		{"tab", "f.yaml", "agents:\n\t- id: a", "f.yaml:2: found character that cannot start any token"},
		{"wrong indent in a list", "f.yaml", "agents:\n  - id: a\n    model: x\n   name: y\n",
			"f.yaml:4: did not find expected '-' indicator"},
		{"wrong indent in a map", "f.yaml", "limits:\n    runTimeout: 1m\n  toolTimeout: 1m\n", "f.yaml:3: did not find expected key"},
		{"wrong indent far down", "f.yaml", "agents:\n" + strings.Repeat("  - id: a\n", 100) + "   - id: a\n",
			"f.yaml:102: did not find expected '-' indicator"},
		{"colon in a value", "f.yaml", "cwd: a\nstateDir: b: c\n", "f.yaml:2: mapping values are not allowed in this context"},
		{"quote not closed", "f.yaml", "cwd: 'a\n  b'\nstateDir: \"b\nagents: []\n", "f.yaml:3: found unexpected end of stream"},
		{"bracket not closed", "f.yaml", "cwd: a\nagents: [\n", "f.yaml:2: did not find expected node content"},
		{"unknown anchor", "f.yaml", "cwd: a\nstateDir: *b\n", "f.yaml:2: unknown anchor 'b' referenced"},
		{"anchor in itself", "f.yaml", "agents: &a\n- *a\n", "f.yaml:2: alias *a is inside the value that it refers to"},
		{"list as key", "f.yaml", "? [a]\n: b\n", "f.yaml:1: a key must be a string"},
		{"merge of a string", "f.yaml", "agents:\n- <<: a\n", "f.yaml:2: << must refer to a map or a list of maps"},
		{"tag", "f.yaml", "agents: []\ncwd: !env HOME\n", "f.yaml:2: cwd: must be a string, not a value with the tag !env"},
		{"tag of a map", "f.yaml", "agents: !!set {a}\n", "f.yaml:1: agents: must be a list, not a value with the tag !!set"},
		{"tag that lies", "f.yaml", "agents: []\ncwd: !!int x\n", "f.yaml:2: cwd: must be a string, not a value with the tag !!int"},
		{"YAML that is not JSON in a .json", "f.json", "{agents: []}",
			"f.json:1: invalid character 'a' looking for beginning of object key string"},
		{"trailing comma", "f.json", "{\n\"agents\": [\n],\n}",
			"f.json:4: invalid character '}' looking for beginning of object key string"},
		{"cut off", "f.json", "{\n\"agents\": [\n", "f.json:2: unexpected end of JSON input"},
		{"more after the end", "f.json", "{\"agents\": []}\n{}", "f.json:2: invalid character '{' after top-level value"},
		{"key twice", "f.json", "{\"cwd\": \"a\",\n\"agents\": [],\n\"cwd\": \"b\"}", "f.json:3: cwd: is repeated, first on line 1"},
		{"key in another case", "f.json", "{\"Agents\": []}", "f.json:1: Agents: unknown key; did you mean agents?"},
		{"number out of range", "f.json", "{\"agents\": [],\n\"cwd\": 1e999}", "f.json:2: number 1e999 is out of range"},
		{"boolean", "f.json", "{\"agents\": [],\n\"cwd\": false}", "f.json:2: cwd: must be a string, not a boolean"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := agent.Parse(tc.file, []byte(tc.data), nil)
			require.EqualError(t, err, tc.want)
		})
	}
}

// TestHostileFiles parses files of 100 kB that would take minutes or all memory without limits. The
// time limit allows for the race detector on slow machines.
func TestHostileFiles(t *testing.T) {
	const size = 100_000
	bomb := "a: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	merges := "agents:\n- &m0 {id: a}\n"
	for i := 1; i < 60; i++ {
		merges += fmt.Sprintf("- &m%d {<<: [*m%d, *m%d]}\n", i, i-1, i-1)
	}
	many := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, tc := range []struct{ name, data, want string }{
		{"[", strings.Repeat("[", size), "exceeded max depth"},
		{"{", strings.Repeat("{", size), "exceeded max depth"},
		{"- ", strings.Repeat("- ", size/2), "exceeded max depth"},
		{"? ", strings.Repeat("? ", size/2), "exceeded max depth"},
		{"[]", strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "nested deeper than 64 levels"},
		{"JSON [", `{"a":` + strings.Repeat("[", size), "exceeded max depth"},
		{"JSON []", `{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}", "nested deeper than 64 levels"},
		{"aliases", bomb, "aliases expand to more than 100000 values"},
		{"merge keys", merges, "f:"},
		{"keys", many("k%d: v\n"), "k0: unknown key"},
		{"keys twice", strings.Repeat("k: v\n", size/5), "k: is repeated"},
		{"JSON keys", `{"x":1` + many(`,"k%d":1`) + "}", "k0: unknown key"},
		{"agents", "agents:\n" + many("- {id: a%d}\n"), "agents[0].model: is missing"},
		{"comments", strings.Repeat("- a #b\n#c\n", size/10), "must be a map"},
		{"documents", strings.Repeat("---\n", size/4), "a second document"},
		{"anchors", strings.Repeat("&a ", size/3), "f:1"},
		{"error on the last line", many("k%d: v\n") + "  x: y", "mapping values are not allowed"},
		{"quote never closed", "cwd: \"" + strings.Repeat("\n ", size/2), "found unexpected end of stream"},
		{"long key", strings.Repeat("k", size) + ": v", "f:1: mapping values are not allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			start := time.Now()
			_, err := agent.Parse("f", []byte(tc.data), nil)
			require.ErrorContains(t, err, tc.want)
			require.Less(t, time.Since(start), time.Minute)
		})
	}
}
