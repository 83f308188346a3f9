// Package readmetest checks the rules of a package against its tests. The tables of CONFORMANCE.md,
// or of README.md in a package without one, have a rule in each row. The last cell names its tests,
// separated by commas: package, function and, after a slash, words of a row or a check in that
// test.
//
//	| Rule | Test |
//	|---|---|
//	| Unknown fields of a body are ignored | `runtime.TestUnknownFieldsAreIgnored`, `hub/api.TestDecode/an object` |
//
// A package checks its rules with
//
//	func TestConformanceNamesTestsThatExist(t *testing.T) { readmetest.Check(t, 250) }
package readmetest

import (
	"errors"
	"fmt"
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
)

// held matches the name of a test in a document: package, function, and words in it.
var held = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Example)\\w*)(?:/([^`]+))?`")

// Check fails for each rule in the directory of the test that names no test or one that does not
// exist, and if there are fewer rules than least: a table that is not recognized would check
// nothing.
func Check(t testing.TB, least int) {
	t.Helper()
	root, err := module()
	if err != nil {
		t.Fatal(err)
	}
	document := "CONFORMANCE.md"
	if _, err := os.Stat(document); errors.Is(err, os.ErrNotExist) {
		document = "README.md"
	}
	rules, faults, err := Read(document, root)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
	if rules < least {
		t.Errorf("%d rules, fewer than %d", rules, least)
	}
}

// module is the directory of the module that the test is in.
func module() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) || !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("find go.mod: %w", err)
		}
		dir = filepath.Dir(dir)
	}
}

// Read returns the number of rules in the tables of a document, and a description of each fault.
// Packages are relative to root.
func Read(document, root string) (rules int, faults []string, err error) {
	text, err := os.ReadFile(document)
	if err != nil {
		return 0, nil, err
	}
	known, packages := map[string]bool{}, map[string]map[string][]string{}
	for _, row := range rows(string(text)) {
		rule, names := row[0], held.FindAllStringSubmatch(row[len(row)-1], -1)
		if rest := strings.Trim(held.ReplaceAllString(row[len(row)-1], ""), ", "); rest != "" || len(names) == 0 || rule == "" || len(row) < 2 {
			faults = append(faults, "no test, or more than tests: "+strings.Join(row, " | "))
		}
		if known[rule] {
			faults = append(faults, "repeated: "+rule)
		}
		known[rule] = true
		for _, name := range names {
			pkg, function, words := name[1], name[2], name[3]
			if packages[pkg] == nil {
				if packages[pkg], err = tests(filepath.Join(root, filepath.FromSlash(pkg))); err != nil {
					return 0, nil, err
				}
			}
			if texts, ok := packages[pkg][function]; !ok || words != "" && !slices.Contains(texts, words) {
				faults = append(faults, name[0]+" does not exist: "+rule)
			}
		}
	}
	return len(known), faults, nil
}

// rows returns the cells of each row in the tables of a document, without the heads. A row whose
// number of cells differs from its head, such as one with an extra |, is returned as one cell.
func rows(document string) (all [][]string) {
	columns := 0 // of the table; 0 before its head
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		inner, ok := strings.CutPrefix(line, "|")
		cells := strings.Split(strings.TrimSuffix(inner, "|"), "|")
		switch {
		case !ok:
			columns = 0
		case strings.HasPrefix(line, "|---"):
			columns = len(cells)
		case columns > 0:
			if len(cells) != columns {
				cells = []string{line}
			}
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all = append(all, cells)
		}
	}
	return all
}

// tests returns the test functions of a package, each with the strings of its file. They include
// the names of its rows.
func tests(dir string) (map[string][]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		var texts []string
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value) // the parser accepted it
				texts = append(texts, text)
			}
			return true
		})
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				all[fn.Name.Name] = texts
			}
		}
	}
	return all, nil
}
