package builtin_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/runtime/internal/builtin"
)

var update = flag.Bool("update", false, "write the golden files")

// One golden file contains the text that models read about the tools.
func TestSpecs(t *testing.T) {
	dir, err := filesafe.Open(t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, dir.Close()) }()
	tools := builtin.Tools(builtin.Config{Dir: dir, Skills: []skill.Skill{{Name: "pdf"}}})
	var out strings.Builder
	for _, one := range tools {
		spec := one.Spec()
		require.Regexp(t, `^[A-Za-z0-9_-]{1,64}$`, spec.Name)
		kind := "changes things"
		if spec.ReadOnly {
			kind = "read-only"
		}
		fmt.Fprintf(&out, "=== %s (%s)\n%s\n\n%s\n\n", spec.Name, kind, spec.Description, spec.InputSchema)
	}
	golden := filepath.Join("testdata", "specs.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o600))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String(), "if it is meant, run the test with -update")
}

// The engine validates inputs with these schemas.
func TestSchemas(t *testing.T) {
	b := skills(t, map[string]string{"home/.agents/skills/pdf/SKILL.md": pdf})
	for name, row := range map[string]struct{ good, bad []string }{
		"Read": {[]string{`{"file_path":"a"}`, `{"file_path":"a","offset":0,"limit":1}`},
			[]string{`{}`, `{"file_path":""}`, `{"file_path":"a","limit":0}`, `{"file_path":"a","offset":-1}`, `{"file_path":"a","x":1}`}},
		"Write": {[]string{`{"file_path":"a","content":""}`},
			[]string{`{"file_path":"a"}`, `{"content":"a"}`, `{"file_path":"a","content":1}`, `{"file_path":"a","content":"","x":1}`}},
		"Edit": {[]string{`{"file_path":"a","old_string":"a","new_string":"","replace_all":true}`},
			[]string{`{"file_path":"a","old_string":"a"}`, `{"file_path":"a","old_string":"a","new_string":"b","x":1}`}},
		"Glob": {[]string{`{"pattern":"*"}`, `{"pattern":"*","path":"a"}`}, []string{`{}`, `{"pattern":""}`, `{"pattern":"*","x":1}`}},
		"Grep": {[]string{`{"pattern":"a"}`, `{"pattern":"a","path":"a","glob":"*","output_mode":"content","-i":true,"-n":false,"-A":1,"-B":0,"-C":2,"head_limit":0}`},
			[]string{`{}`, `{"pattern":"a","output_mode":"lines"}`, `{"pattern":"a","-A":-1}`, `{"pattern":"a","x":1}`}},
		"TodoWrite": {[]string{`{"todos":[]}`,
			`{"todos":[{"content":"a","status":"pending","activeForm":"b","id":1,"priority":"high"}]}`},
			[]string{`{}`, `{"todos":[{"content":"a"}]}`, `{"todos":[{"content":"a","status":"done"}]}`,
				`{"todos":[{"content":"a","status":"pending","x":1}]}`}},
		"Skill": {[]string{`{"skill":"pdf"}`, `{"skill":"pdf","args":"a"}`}, []string{`{}`, `{"skill":"pdf","x":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var schema jsonschema.Schema
			require.NoError(t, json.Unmarshal(b.tools[name].Spec().InputSchema, &schema))
			resolved, err := schema.Resolve(nil)
			require.NoError(t, err)
			check := func(input string) error {
				var value any
				require.NoError(t, json.Unmarshal([]byte(input), &value))
				return resolved.Validate(value)
			}
			for _, input := range row.good {
				require.NoError(t, check(input), input)
			}
			for _, input := range row.bad {
				require.Error(t, check(input), input)
			}
		})
	}
}

func TestToolsWithoutADirectory(t *testing.T) {
	var names []string
	for _, one := range builtin.Tools(builtin.Config{}) {
		names = append(names, one.Spec().Name)
	}
	require.Equal(t, []string{"WebFetch", "TodoWrite"}, names)

	dir, err := filesafe.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dir.Close()) })
	for _, one := range builtin.Tools(builtin.Config{Dir: dir}) {
		if !slices.Contains(names, one.Spec().Name) {
			names = append(names, one.Spec().Name)
		}
	}
	require.ElementsMatch(t, append([]string{"WebFetch", "TodoWrite"}, builtin.InDir...), names)
}
