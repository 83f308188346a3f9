package skill_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/seed93082962/agenthost/internal/skill"
)

// FuzzParse compares Parse with the YAML decoder if the frontmatter is valid YAML.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"name: a\ndescription: b", "description: Use this: when\nname: a", "name: |\n  a\n  b\ndescription: >-\n  c\n\n  d",
		"{name: a, description: \"\\0\"}",
		"name: &a [x]\ndescription: *a", "a: &x b\nname: *x", "name: 'it''s'\r\ndescription: \"\\u00e9\"\r\n",
		"x: y: z\nname: \"a\\tb\"\ndescription: |\n\tb",
		"name: a\n--- \ndescription: b", "name: \xff", "%YAML 1.1\nname: a", "name: !!binary aGk=", "? name\n: a",
		"\"name\": 0o7", "<<: {name: a}", "...\nname: a",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, front []byte) {
		if len(front) > 2000 {
			return // the oracle takes long for keys that are repeated
		}
		doc, err := skill.Parse([]byte("---\n" + string(front) + "\n---\n\n  body\n"))
		for _, s := range []string{doc.Name, doc.Description, doc.Body} {
			require.True(t, utf8.ValidString(s))
		}
		require.NotContains(t, doc.Name, "\n")
		require.Equal(t, strings.TrimSpace(doc.Description), doc.Description)
		require.True(t, strings.HasSuffix(doc.Body, "  body"))

		for line := range strings.Lines(string(front) + "\n") {
			if strings.TrimRight(line, " \t\r\n") == "---" {
				return // closes it
			}
		}
		require.Equal(t, "  body", doc.Body)
		var want map[string]any
		if yaml.Unmarshal([]byte("---\n"+string(front)+"\n"), &want) != nil || strings.Contains(string(front), "<<") {
			return // keys merged in from elsewhere are not looked at
		}
		name, named := text(want["name"])
		description, described := text(want["description"])
		if named && described {
			require.NoError(t, err)
		}
		if named {
			require.Equal(t, strings.Join(strings.Fields(name), " "), doc.Name)
		}
		if described {
			require.Equal(t, strings.TrimSpace(description), doc.Description)
		}
	})
}

// text holds for what YAML takes for a string, and is not changed by what Parse does to control
// characters.
func text(v any) (string, bool) {
	s, ok := v.(string)
	if v == nil {
		ok = true
	}
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	return s, ok && utf8.ValidString(s) && !strings.ContainsFunc(s, control)
}

// TestMalformedLine checks that a line that is not YAML changes neither name nor description.
func TestMalformedLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z"':#|>&*!%@{}\[\],\x60é中 \n-]{0,30}`)
		keys := []map[string]string{{"name": value.Draw(t, "name")}, {"description": value.Draw(t, "description")},
			{"license": value.Draw(t, "license")}}
		var good string
		for _, key := range rapid.Permutation(keys).Draw(t, "order") {
			data, err := yaml.Marshal(key)
			require.NoError(t, err)
			good += string(data)
		}
		want, err := skill.Parse([]byte("---\n" + good + "---\nbody"))
		require.NoError(t, err)
		for _, broken := range []string{"x: y: z\n" + good, good + "x: y: z\n"} {
			doc, err := skill.Parse([]byte("---\n" + broken + "---\nbody"))
			require.Error(t, err)
			require.Equal(t, want, doc)
		}
	})
}

// TestPlainDescriptions checks that any line of text after "description: " is read unchanged,
// unless YAML gives it another meaning.
func TestPlainDescriptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringMatching(`[A-Z][a-z"':,.()é中 -]{0,40}[a-z.]`).Draw(t, "line")
		doc, _ := skill.Parse([]byte("---\nname: a\ndescription: " + line + "\n---\n"))
		require.Equal(t, skill.Document{Name: "a", Description: line}, doc)
	})
}
