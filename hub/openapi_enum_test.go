package hub_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// An empty value of an enum has a name, without which generators write code that does not compile.
func TestEveryEmptyValueHasAName(t *testing.T) {
	t.Parallel()
	enum := regexp.MustCompile(`enum: \[[^\]]*""[^\]]*\](, x-enum-varnames)?`)
	for _, file := range []string{"openapi.yaml", "../runtime/openapi.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range enum.FindAllStringSubmatch(string(text), -1) {
			require.NotEmpty(t, found[1], "%s: %s", file, found[0])
		}
	}
}
