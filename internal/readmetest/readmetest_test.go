package readmetest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/readmetest"
)

func TestRead(t *testing.T) {
	root := t.TempDir()
	source := "package a_test\n\nfunc TestA(t *testing.T) { t.Run(\"a row\", nil) }\n\nfunc (x) TestB() {}\n\nfunc FuzzA() {}\n\nfunc ExampleA_b() {}\n"
	require.NoError(t, os.MkdirAll(filepath.Join(root, "in", "a"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "in", "a", "a_test.go"), []byte(source), 0o600))
	const head = "# A\n\n| a | `b` |\n\n| Rule | Test |\n|---|---|\n"
	for name, row := range map[string]struct {
		text  string
		rules int
		fault string
	}{
		"a test":             {head + "| It is | `in/a.TestA` |\n", 1, ""},
		"several, and words": {head + "| It is | `in/a.TestA/a row`, `in/a.FuzzA`, `in/a.ExampleA_b` |\n", 1, ""},
		"three columns":      {"| Rule | How | Tests |\n|---|---|---|\n| It is | so | `in/a.TestA` |\n", 1, ""},
		"two tables":         {head + "| It is | `in/a.TestA` |\n\nMore.\n\n| Rule | Test |\n|---|---|\n| That too | `in/a.TestA` |\n", 2, ""},
		"no table":           {"It is.\n", 0, ""},
		"no test":            {head + "| It is | |\n", 1, "no test, or more than tests: It is | "},
		"a promise":          {head + "| It is | `in/a.TestA` and more |\n", 1, "no test, or more than tests: It is | `in/a.TestA` and more"},
		"no rule":            {head + "| | `in/a.TestA` |\n", 1, "no test, or more than tests:  | `in/a.TestA`"},
		"told twice":         {head + "| It is | `in/a.TestA` |\n| It is | `in/a.FuzzA` |\n", 1, "repeated: It is"},
		"a | in a cell":      {head + "| a|b | `in/a.TestA` |\n", 1, "no test, or more than tests: | a|b | `in/a.TestA` |"},
		"another function":   {head + "| It is | `in/a.TestC` |\n", 1, "`in/a.TestC` does not exist: It is"},
		"a method":           {head + "| It is | `in/a.TestB` |\n", 1, "`in/a.TestB` does not exist: It is"},
		"another package":    {head + "| It is | `in/b.TestA` |\n", 1, "`in/b.TestA` does not exist: It is"},
		"other words":        {head + "| It is | `in/a.TestA/no row` |\n", 1, "`in/a.TestA/no row` does not exist: It is"},
	} {
		t.Run(name, func(t *testing.T) {
			document := filepath.Join(t.TempDir(), "README.md")
			require.NoError(t, os.WriteFile(document, []byte(row.text), 0o600))
			rules, faults, err := readmetest.Read(document, root)
			require.NoError(t, err)
			require.Equal(t, row.rules, rules)
			if row.fault == "" {
				require.Empty(t, faults)
			} else {
				require.Equal(t, []string{row.fault}, faults)
			}
		})
	}
	_, _, err := readmetest.Read(filepath.Join(root, "README.md"), root)
	require.ErrorIs(t, err, os.ErrNotExist)
}
