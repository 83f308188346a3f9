package skill_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/skill"
)

// Frontmatter of the largest size allocates in proportion to its size, for any YAML.
func TestParseBoundsHostileFrontmatter(t *testing.T) {
	const size = 63 << 10
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	var aliases, indents, keys strings.Builder
	aliases.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 30 {
		fmt.Fprintf(&aliases, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i)
	}
	for i := 0; indents.Len() < size-1000; i++ {
		fmt.Fprintf(&indents, "%*sa:\n", i, "")
	}
	for i := 0; keys.Len() < size-100; i++ {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for name, front := range map[string]string{
		"open lists":         fill("["),
		"open maps":          fill("{a: "),
		"nested blocks":      indents.String(),
		"nested items":       fill("- "),
		"explicit keys":      fill("? "),
		"repeated keys":      fill("name: a\n"),
		"distinct keys":      keys.String(),
		"aliases of aliases": aliases.String(),
		"anchors":            fill("- &a x\n- *a\n"),
		"merges":             "a: &a {b: 1}\n" + fill("<<: *a\n"),
		"a number":           "name: " + fill("9"),
		"an exponent":        "name: 1e" + fill("9"),
		"escapes":            `name: "` + fill(`\u0041`) + `"`,
		"comments":           fill("# c\na: # d\n"),
		"tags":               fill("- !!str x\n"),
		"directives":         fill("%TAG !a! tag:\n"),
	} {
		t.Run(name, func(t *testing.T) {
			data := []byte("---\n" + front + "\n---\nbody")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			doc, _ := skill.Parse(data)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<20))
			require.LessOrEqual(t, len(doc.Name)+len(doc.Description), 64<<10)
		})
	}
}
