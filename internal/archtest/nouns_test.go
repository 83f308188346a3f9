package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// noun is a row of the table of nouns in CONTRIBUTING.md. A noun without a package names no type.
var noun = regexp.MustCompile("(?m)^\\| ([a-z]+) \\| [^|]+ \\| (?:`([a-z0-9/]+)`|no type) \\|$")

// A word that names two things is read twice.
func TestNounsHaveOneMeaning(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "CONTRIBUTING.md"))
	require.NoError(t, err)
	owners := map[string]string{}
	for _, row := range noun.FindAllStringSubmatch(string(text), -1) {
		owners[row[1]] = row[2]
	}
	require.Greater(t, len(owners), 10, "CONTRIBUTING.md has a table of nouns")
	declared := map[string]bool{}
	for pkg, name := range typeNames(t) {
		owner, listed := owners[strings.ToLower(name)]
		if !listed || path.Base(pkg) == "wire" && owner != "" {
			continue
		}
		require.Equal(t, owner, pkg, "the type %s.%s has the name of another thing: see the nouns in CONTRIBUTING.md", pkg, name)
		declared[strings.ToLower(name)] = true
	}
	for name, owner := range owners {
		require.True(t, owner == "" || declared[name] || path.Base(owner) == "wire", "%s has no type %s", owner, name)
	}
}

// typeNames iterates over the packages, without tests, suites, tools and examples, and the types
// that they declare. An alias is the name of a type of another package.
func typeNames(t *testing.T) func(yield func(pkg, name string) bool) {
	t.Helper()
	root := filepath.Join("..", "..")
	var pairs [][2]string
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.IsDir() && file != root && (slices.Contains([]string{"tools", "examples", "testdata", "node_modules"}, d.Name()) ||
			strings.HasSuffix(d.Name(), "test") || strings.ContainsAny(d.Name()[:1], "._")) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		require.NoError(t, err)
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && !s.Assign.IsValid() {
					pairs = append(pairs, [2]string{path.Dir(filepath.ToSlash(rel)), s.Name.Name})
				}
			}
		}
		return nil
	}))
	return func(yield func(pkg, name string) bool) {
		for _, p := range pairs {
			if !yield(p[0], p[1]) {
				return
			}
		}
	}
}
