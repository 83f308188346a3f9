package identity_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// held is a test as the README names it, and the name of a row in it.
var held = regexp.MustCompile("`hub/identity\\.(Test\\w+)(?:/([^`]+))?`")

// requirement is the number of an ASVS requirement that a row of the README begins with.
var requirement = regexp.MustCompile(`^[0-9]\.[0-9]\.[0-9] `)

// TestTheReadmeNamesTestsThatExist holds the README to the tests: each rule has one, and it is there.
func TestTheReadmeNamesTestsThatExist(t *testing.T) {
	data, err := os.ReadFile("README.md")
	require.NoError(t, err)
	tests := testsHere(t)
	var numbers, faults []string
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| Tests |\n") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		require.Len(t, cells, 3, "a | in a cell? %s", line)
		rule := strings.TrimSpace(cells[0])
		numbers = append(numbers, strings.TrimSpace(requirement.FindString(rule)))
		names := held.FindAllStringSubmatch(cells[2], -1)
		if len(names) == 0 || strings.Trim(held.ReplaceAllString(cells[2], ""), ", ") != "" {
			faults = append(faults, "no test: "+rule)
		}
		for _, m := range names {
			if texts, ok := tests[m[1]]; !ok || m[2] != "" && !slices.Contains(texts, m[2]) {
				faults = append(faults, m[0]+" is not there: "+rule)
			}
		}
	}
	require.Empty(t, faults, "%s", strings.Join(faults, "\n"))
	numbers = slices.DeleteFunc(numbers, func(s string) bool { return s == "" })
	require.Equal(t, strings.Fields(`7.1.1 7.1.2 7.1.3 7.2.1 7.2.2 7.2.3 7.2.4 7.3.1 7.3.2 7.4.1 7.4.2 7.4.3 7.4.4 7.4.5
		7.5.1 7.5.2 7.5.3 9.1.1 9.1.2 9.1.3 9.2.1 9.2.2 9.2.3 9.2.4`), numbers, "all requirements of these chapters, in their order")
}

// testsHere are the test functions of this package, each with the strings in it, among which are the names of its rows.
func testsHere(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	tests := map[string][]string{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			texts := []string{}
			ast.Inspect(fn, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, err := strconv.Unquote(lit.Value)
					require.NoError(t, err)
					texts = append(texts, text)
				}
				return true
			})
			tests[fn.Name.Name] = texts
		}
	}
	return tests
}
