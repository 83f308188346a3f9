package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// module is the prefix that rows omit for packages of this module.
const module = "github.com/seed93082962/agenthost"

// tree is the input of the checks.
type tree struct {
	files []*file
	deps  map[string][]string // import path to import paths, of every package in the build; without tests
}

// file is one Go file, for any system.
type file struct {
	path  string // relative to the module
	pkg   string // its directory, relative to the module
	lines int
	set   *token.FileSet
	ast   *ast.File
}

func (f *file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f *file) at(p token.Pos) string {
	return f.path + ":" + strconv.Itoa(f.set.Position(p).Line)
}

// imports returns the import paths of the file by their names in it.
func (f *file) imports() map[string]string {
	byName := map[string]string{}
	for _, spec := range f.ast.Imports {
		target := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(target)
		if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(target))
		}
		switch {
		case spec.Name == nil:
		case spec.Name.Name == "_" || spec.Name.Name == ".":
			name = spec.Name.Name + " " + target
		default:
			name = spec.Name.Name
		}
		byName[name] = target
	}
	return byName
}

func parse(name string, src []byte) (*file, error) {
	set := token.NewFileSet()
	syntax, err := parser.ParseFile(set, name, src, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	return &file{path: name, pkg: path.Dir(name), lines: bytes.Count(src, []byte("\n")), set: set, ast: syntax}, nil
}

// relative returns the name of a package of this module in the rows.
func relative(importPath string) (pkg string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// repository reads this module once for all tests.
var repository = sync.OnceValues(func() (*tree, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	t := &tree{}
	if t.files, err = readFiles(root); err != nil {
		return nil, err
	}
	t.deps, err = readDeps(root)
	return t, err
})

// readFiles parses every Go file below root, except nested modules, testdata and hidden
// directories.
func readFiles(root string) ([]*file, error) {
	var files []*file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root {
			_, noModule := os.Stat(filepath.Join(p, "go.mod"))
			if noModule == nil || d.Name() == "testdata" || d.Name() == "node_modules" || d.Name()[0] == '.' || d.Name()[0] == '_' {
				return filepath.SkipDir
			}
		}
		if d.IsDir() || filepath.Ext(p) != ".go" {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(rel), src)
		files = append(files, f)
		return err
	})
	return files, err
}

// readDeps runs the go command for the import graph of everything that this module builds.
func readDeps(root string) (map[string][]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New("go list: " + stderr.String())
	}
	deps := map[string][]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			return deps, nil
		} else if err != nil {
			return nil, err
		}
		deps[p.ImportPath] = p.Imports
	}
}
