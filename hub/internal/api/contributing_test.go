package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// CONTRIBUTING lists the codes of all concerns, also of those that are not built yet.
func TestContributingListsEveryCodeWithItsStatus(t *testing.T) {
	text, err := os.ReadFile("../../../CONTRIBUTING.md")
	require.NoError(t, err)
	listed := map[string][]string{} // statuses by code
	row := regexp.MustCompile(`(?m)^\| (\d{3}(?:, \d{3})*) \| (.+) \|$`)
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		for code := range strings.SplitSeq(match[2], ", ") {
			listed[strings.Trim(code, "`")] = strings.Split(match[1], ", ")
		}
	}
	for _, c := range slices.Concat(declaredCodes(t, "../../wire/error.go"), declaredCodes(t, "../code/code.go")) {
		require.True(t, slices.Contains(listed[string(c)], strconv.Itoa(code.Status(c))), "%s with status %d", c, code.Status(c))
	}
}

// declaredCodes returns the constants of type Code.
func declaredCodes(t *testing.T, file string) []wire.Code {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var codes []wire.Code
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		kind := spec.Type
		if selector, ok := kind.(*ast.SelectorExpr); ok {
			kind = selector.Sel
		}
		if kind, ok := kind.(*ast.Ident); ok && kind.Name == "Code" && len(spec.Values) == 1 {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			codes = append(codes, wire.Code(value))
		}
		return true
	})
	require.Greater(t, len(codes), 10)
	return codes
}
