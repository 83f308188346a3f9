package archtest_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxNames is the number of public names that the modules of this repository may have together. It
// is only lowered.
const maxNames = 465

var update = flag.Bool("update", false, "write names.txt")

// A public name is a promise to the programs that import it. A new one is a decision: it needs a
// line in names.txt, which go test ./internal/archtest -run PublicNames -update writes.
func TestPublicNames(t *testing.T) {
	t.Parallel()
	names := publicNames(t)
	require.LessOrEqual(t, len(names), maxNames, "unexport a name, or move its package to internal")
	got := strings.Join(names, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile("names.txt", []byte(got), 0o600))
	}
	want, err := os.ReadFile("names.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), got, "names.txt is not the list of public names")
}

// publicNames returns the exported names, without methods and fields, of the packages that other
// modules can import and that are not suites, each after its package.
func publicNames(t *testing.T) []string {
	t.Helper()
	root := filepath.Join("..", "..")
	var names []string
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(root, file)
		require.NoError(t, err)
		private := []string{"cmd", "tools", "examples", "internal", "testdata", "node_modules"}
		if d.IsDir() && file != root && (slices.Contains(private, d.Name()) || strings.HasSuffix(d.Name(), "test") || strings.ContainsAny(d.Name()[:1], "._")) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for name := range exported(f) {
			names = append(names, path.Dir(filepath.ToSlash(rel))+" "+name)
		}
		return nil
	}))
	slices.Sort(names)
	return slices.Compact(names) // a name may have one declaration for each system
}

// exported iterates over the exported names that a file declares, without methods.
func exported(f *ast.File) func(yield func(string) bool) {
	var names []*ast.Ident
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name)
				case *ast.ValueSpec:
					names = append(names, s.Names...)
				}
			}
		}
	}
	return func(yield func(string) bool) {
		for _, name := range names {
			if name.IsExported() && !yield(name.Name) {
				return
			}
		}
	}
}
