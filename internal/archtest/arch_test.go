package archtest_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module     = "github.com/seed93082962/agenthost/"
	thirdParty = "(third party)" // every package that is neither of this module nor of the standard library
)

// pkg has the files of a directory, for any system.
type pkg struct {
	name    string   // relative to the module
	imports []string // without tests, for any system
	files   []*ast.File
	tests   []*ast.File
	lines   map[string]int // of each file that is not generated
}

func TestImports(t *testing.T) {
	t.Parallel()
	packages, err := source()
	require.NoError(t, err)
	used := map[string]bool{}
	for _, p := range packages {
		if exempt(p.name) {
			continue
		}
		row := find(arrows, p.name)
		if row == nil {
			t.Errorf("%s has no row in arrows: add one with a reason", p.name)
			continue
		}
		used[row.packages] = true
		for _, imported := range p.imports {
			target, ours := strings.CutPrefix(imported, module)
			switch {
			case ours && strings.HasSuffix(target, "test"):
				t.Errorf("%s imports %s, which is for tests", p.name, target)
			case ours && match(row.imports, target) == "":
				t.Errorf("%s must not import %s: %s", p.name, target, row.reason)
			case ours:
				used[row.packages+match(row.imports, target)] = true
			}
		}
	}
	names := slices.Collect(maps.Keys(packages))
	for _, row := range arrows {
		for name := range strings.FieldsSeq(row.packages) {
			if !slices.ContainsFunc(names, func(p string) bool { return match(name, p) != "" }) {
				t.Errorf("the row of %s has no package", name)
			}
		}
		for name := range strings.FieldsSeq(row.imports) {
			if !used[row.packages+name] && used[row.packages] && !slices.Contains(strings.Fields(concern+" "+formats), name) {
				t.Errorf("%s do not import %s: remove it from their row", row.packages, name)
			}
		}
	}
}

func TestModules(t *testing.T) {
	t.Parallel()
	packages, err := source()
	require.NoError(t, err)
	for _, p := range packages {
		for _, imported := range p.imports {
			outside := strings.Contains(strings.Split(imported, "/")[0], ".") || match(testModules, imported) != "" || imported == "C"
			if strings.HasPrefix(imported, module) || !outside || strings.HasSuffix(p.name, "test") && match(testModules, imported) != "" {
				continue
			}
			permits := func(r rule) bool { return match(r.packages, p.name) != "" && match(r.imports, imported) != "" }
			if !slices.ContainsFunc(modules, permits) && p.name != "internal/db/pgtest" {
				t.Errorf("%s imports %s, which no row of modules permits", p.name, imported)
			}
		}
		for _, f := range p.tests {
			for _, spec := range f.Imports {
				require.NotEqual(t, `"github.com/stretchr/testify/assert"`, spec.Path.Value, "%s: a test ends at its first failure: use require", p.name)
			}
		}
	}
}

func TestDependencies(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Deps,Standard", "work")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	require.NoError(t, cmd.Run())
	for dec := json.NewDecoder(&out); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		err := dec.Decode(&p)
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		name, ours := strings.CutPrefix(p.ImportPath, module)
		for _, row := range unreachable {
			if !ours || match(row.packages, name) == "" || strings.HasSuffix(name, "test") {
				continue
			}
			for _, dep := range p.Deps {
				target, ours := strings.CutPrefix(dep, module)
				outside := !ours && strings.Contains(strings.Split(dep, "/")[0], ".")
				isOurs := strings.HasPrefix(match(row.imports, target), "runtime") || strings.HasPrefix(match(row.imports, target), "hub")
				if row.imports == thirdParty && outside || match(row.imports, target) != "" && isOurs == ours {
					t.Errorf("%s links %s: %s", name, dep, row.reason)
				}
			}
		}
	}
}

func TestLibraries(t *testing.T) {
	t.Parallel()
	packages, err := source()
	require.NoError(t, err)
	for _, p := range packages {
		for _, f := range p.files {
			if f.Name.Name == "main" || match("cmd/... examples/...", p.name) != "" {
				continue
			}
			eachName(f, func(name string) {
				for _, row := range forbidden {
					if match(row.imports, name) != "" && match(strings.TrimPrefix(row.packages, "except"), p.name) == "" {
						t.Errorf("%s uses %s: %s", p.name, name, row.reason)
					}
				}
			})
			for _, d := range f.Decls {
				// The launcher of sandboxes runs before the init functions of other packages.
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && p.name != "internal/sandbox/internal/launch" {
					t.Errorf("%s has an init function, which runs in every importing program: initialize in New", p.name)
				}
			}
		}
		for _, f := range p.tests {
			eachName(f, func(name string) {
				if name == "time.Sleep" {
					t.Errorf("a test of %s sleeps, so it is slow or flaky: wait for the event, or use testing/synctest", p.name)
				}
			})
		}
	}
}

func TestLengthOfFiles(t *testing.T) {
	t.Parallel()
	packages, err := source()
	require.NoError(t, err)
	for _, p := range packages {
		for file, lines := range p.lines {
			limit := 400
			switch {
			case match("cmd/...", p.name) != "" && file == "main.go":
				limit = 120
			case match("examples/...", p.name) != "":
				limit = 80
			}
			if lines > limit {
				t.Errorf("%s/%s has %d lines, more than %d: split it", p.name, file, lines, limit)
			}
		}
	}
}

// eachName calls yield with the qualified names in a file, as "os.Getenv".
func eachName(f *ast.File, yield func(string)) {
	imported := map[string]bool{}
	for _, spec := range f.Imports {
		imported[path.Base(strings.Trim(spec.Path.Value, `"`))] = true
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if base, ok := sel.X.(*ast.Ident); ok && imported[base.Name] {
				yield(base.Name + "." + sel.Sel.Name)
			}
		}
		return true
	})
}

// exempt reports whether a package may import everything.
func exempt(name string) bool {
	return strings.HasSuffix(name, "test") || match("cmd/... examples/...", name) != ""
}

// match returns the longest pattern that matches a name, or "".
func match(patterns, name string) (longest string) {
	for p := range strings.FieldsSeq(patterns) {
		above, below := strings.CutSuffix(p, "/...")
		prefix, open := strings.CutSuffix(p, "*")
		if p == name || below && (name == above || strings.HasPrefix(name, above+"/")) || open && strings.HasPrefix(name, prefix) {
			if len(p) > len(longest) {
				longest = p
			}
		}
	}
	return longest
}

// find returns the row with the longest pattern for a package; its own name comes first.
func find(rows []rule, name string) (found *rule) {
	longest := -1
	for i, r := range rows {
		n := len(match(r.packages, name))
		if slices.Contains(strings.Fields(r.packages), name) {
			n = 1 << 10
		}
		if n > 0 && n > longest {
			found, longest = &rows[i], n
		}
	}
	return found
}

// source reads every Go file of the modules of go.work once, for all tests.
var source = sync.OnceValues(func() (map[string]*pkg, error) {
	root := filepath.Join("..", "..")
	packages := map[string]*pkg{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root {
			if file == filepath.Join(root, "tools") || slices.Contains([]string{"testdata", "node_modules"}, d.Name()) || strings.ContainsAny(d.Name()[:1], "._") {
				return filepath.SkipDir
			}
		}
		if d.IsDir() || filepath.Ext(file) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := path.Dir(filepath.ToSlash(rel))
		p := packages[name]
		if p == nil {
			p = &pkg{name: name, lines: map[string]int{}}
			packages[name] = p
		}
		if !ast.IsGenerated(f) {
			p.lines[path.Base(file)] = bytes.Count(src, []byte("\n"))
		}
		if strings.HasSuffix(file, "_test.go") {
			p.tests = append(p.tests, f)
			return nil
		}
		p.files = append(p.files, f)
		for _, spec := range f.Imports {
			p.imports = append(p.imports, strings.Trim(spec.Path.Value, `"`))
		}
		return nil
	})
	return packages, err
})
