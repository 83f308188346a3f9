package runtime_test

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

// held is a test as the README names it: package, function, and the name of a row in it.
var held = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Example)\\w*)(?:/([^`]+))?`")

// TestTheReadmeNamesTestsThatExist holds the README to the tests: each rule has one, and it is there.
func TestTheReadmeNamesTestsThatExist(t *testing.T) {
	rows := rulesOf(t, "README.md")
	require.Greater(t, len(rows), 250, "rules are told apart")
	var faults []string
	rules, packages := map[string]bool{}, map[string]map[string][]string{}
	for _, row := range rows {
		require.Len(t, row, 2, "a | in a cell? %v", row)
		rule, names := row[0], held.FindAllStringSubmatch(row[1], -1)
		if rest := strings.Trim(held.ReplaceAllString(row[1], ""), ", "); rest != "" || len(names) == 0 || rule == "" || rules[rule] {
			faults = append(faults, "no test, or told twice: "+strings.Join(row, " | "))
		}
		rules[rule] = true
		for _, m := range names {
			if packages[m[1]] == nil {
				packages[m[1]] = testsOf(t, m[1])
			}
			if texts, ok := packages[m[1]][m[2]]; !ok || m[3] != "" && !slices.Contains(texts, m[3]) {
				faults = append(faults, m[0]+" is not there: "+rule)
			}
		}
	}
	require.Empty(t, faults, "%s", strings.Join(faults, "\n"))
}

// rulesOf reads the cells of all tables of a document, without their heads.
func rulesOf(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	head := true
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		inner, ok := strings.CutPrefix(line, "|")
		switch {
		case !ok:
			head = true
		case strings.HasPrefix(line, "|---"):
			head = false
		case !head:
			cells := strings.Split(strings.TrimSuffix(inner, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// testsOf are the test functions of a package of this module, each with the strings of its file, among which are the names
// of its rows.
func testsOf(t *testing.T, pkg string) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pkg), "*_test.go"))
	require.NoError(t, err)
	tests := map[string][]string{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		var texts []string
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				texts = append(texts, text)
			}
			return true
		})
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				tests[fn.Name.Name] = texts
			}
		}
	}
	return tests
}
