package archtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each check runs on a small tree that breaks its rule, and on one that follows it.

const modulePrefix = `"github.com/seed93082962/agenthost/`

var checkRows = []struct {
	name  string
	files map[string]string // by path
	deps  string            // lines as treeOf reads them
	check func(*tree) []string
	want  string // in the one fault; "" if there is none
}{
	{name: "a forbidden arrow", want: "b/b.go: must not import c: because", check: arrowsOf(rule{"b", "a", "because"}, rule{"a", "", "."}, rule{"c", "", "."}),
		files: map[string]string{"b/b.go": `package b; import ` + modulePrefix + `c"`}},
	{name: "an allowed arrow", check: arrowsOf(rule{"b", "a", "because"}),
		files: map[string]string{"b/b.go": `package b; import (` + modulePrefix + `a"; "fmt"; "github.com/x/y")`}},
	{name: "an arrow in a file for another system", want: "must not import a", check: arrowsOf(rule{"b", "", "."}),
		files: map[string]string{"b/b_windows.go": "//go:build windows\n\npackage b\nimport _ " + modulePrefix + `a"`}},
	{name: "tests are exempt", check: arrowsOf(rule{"b", "", "."}),
		files: map[string]string{"b/b_test.go": `package b_test; import ` + modulePrefix + `a"`}},
	{name: "no row", want: "package b has no row", check: arrowsOf(rule{"a/...", "", "."}),
		files: map[string]string{"b/b.go": "package b"}},
	{name: "the most specific row applies", want: "must not import z", check: arrowsOf(rule{"a/...", "...", "."}, rule{"a/b", "", "."}),
		files: map[string]string{"a/b/b.go": `package b; import ` + modulePrefix + `z"`, "a/c/c.go": `package c; import ` + modulePrefix + `z"`}},
	{name: "a leaf and a third party", want: "may import only the standard library", check: arrowsOf(rule{"a", stdlib, "."}),
		files: map[string]string{"a/a.go": `package a; import ("fmt"; "github.com/x/y")`}},
	{name: "a leaf and another leaf", want: "imports b, and may import only the standard library", check: arrowsOf(rule{"a", stdlib, "."}),
		files: map[string]string{"a/a.go": `package a; import ` + modulePrefix + `b"`}},
	{name: "a leaf and an internal package of the standard library", check: arrowsOf(rule{"a", stdlib, "."}, rule{"internal/b", stdlib, "."}),
		files: map[string]string{"a/a.go": `package a; import ` + modulePrefix + `internal/b"`}},
	{name: "a leaf and another internal package", want: "imports internal/b", check: arrowsOf(rule{"a", stdlib, "."}, rule{"internal/b", "", "."}),
		files: map[string]string{"a/a.go": `package a; import ` + modulePrefix + `internal/b"`}},
	{name: "a package of the module with the name of a standard one", check: arrowsOf(rule{"a", stdlib, "."}),
		files: map[string]string{"a/a.go": `package a; import "runtime"`}},
	{name: "test support in a server", want: "which is for tests", check: arrowsOf(rule{"a", "...", "."}),
		files: map[string]string{"a/a.go": `package a; import ` + modulePrefix + `b/btest"`}},

	{name: "a misspelt name", want: "hub/catalgo", check: func(*tree) []string {
		return checkNames("hub/catalog hub/... hub/catalgo *test", []rule{{subject: "hub"}, {subject: "hub/catalog"}})
	}},

	{name: "a module in the wrong place", want: "a/a.go: must not import github.com/spf13/cobra", check: modulesOf(rule{"github.com/spf13/cobra", "cmd/...", "."}),
		files: map[string]string{"a/a.go": `package a; import "github.com/spf13/cobra"`, "cmd/x/main.go": `package main; import "github.com/spf13/cobra"`, "a/a_test.go": `package a; import "github.com/spf13/cobra"`}},
	{name: "a module without a row, in a test", want: "imports github.com/x/y, which has no row", check: modulesOf(),
		files: map[string]string{"a/a_test.go": `package a; import "github.com/x/y"`}},
	{name: "testify/assert has no row", want: "testify/assert", check: func(t *tree) []string { return checkModules(t, modules) },
		files: map[string]string{"a/a_test.go": `package a; import ("testing"; "github.com/stretchr/testify/assert"; "github.com/stretchr/testify/require")`}},
	{name: "testing outside tests", want: "must not import testing", check: func(t *tree) []string { return checkModules(t, modules) },
		files: map[string]string{"a/a.go": `package a; import "testing"`, "a/atest/a.go": `package atest; import "testing"`}},
	{name: "cgo", want: "imports C", check: modulesOf(),
		files: map[string]string{"a/a.go": `package a; import "C"`}},

	{name: "an indirect dependency through a third-party module", want: "/runtime/run -> github.com/x/y -> database/sql: because",
		deps: "runtime/run: github.com/x/y\ngithub.com/x/y: database/sql\nhub: database/sql",
		check: func(t *tree) []string {
			return checkReach(t, []reach{{"runtime/...", "hub/...", "database/sql", "because"}})
		}},
	{name: "an indirect dependency through this module", want: "/runtime -> github.com/seed93082962/agenthost/runtime/a -> github.com/seed93082962/agenthost/hub/b: because",
		deps: "runtime: module/runtime/a\nother: module/runtime/a",
		check: func(t *tree) []string {
			t.deps[module+"/runtime/a"] = []string{module + "/hub/b"}
			return checkReach(t, []reach{{"runtime", "hub/...", "", "because"}})
		}},
	{name: "the interface of drivers is permitted", deps: "runtime: database/sql/driver",
		check: func(t *tree) []string { return checkReach(t, unreachable) }},

	{name: "the environment in a library", want: "a/a.go:3: os.Getenv", check: usesOf(),
		files: map[string]string{"a/a.go": "package a\nimport \"os\"\nvar x = os.Getenv(`HOME`)", "a/a_test.go": "package a\nimport \"os\"\nvar y = os.Getenv(`HOME`)",
			"cmd/x/x.go": "package x\nimport \"os\"\nvar y = os.Getenv(`HOME`)"}},
	{name: "a renamed import", want: "net/http.DefaultClient", check: usesOf(),
		files: map[string]string{"a/a.go": "package a\nimport web \"net/http\"\nvar x = web.DefaultClient"}},
	{name: "a name with a matching prefix", want: "fmt.Println", check: usesOf(),
		files: map[string]string{"a/a.go": "package a\nimport \"fmt\"\nfunc f() { fmt.Println(fmt.Sprint()) }"}},
	{name: "a method with a forbidden name", check: usesOf(),
		files: map[string]string{"a/a.go": "package a\nfunc f(log T) { log.Print() }"}},
	{name: "a sleep in a test", want: "a/a_test.go:3: time.Sleep", check: usesOf(),
		files: map[string]string{"a/a_test.go": "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }", "a/a.go": "package a\nimport \"time\"\nfunc g() { time.Sleep(1) }"}},
	{name: "an exception", check: usesOf(rule{"a", "os.Environ", "."}),
		files: map[string]string{"a/a.go": "package a\nimport \"os\"\nvar x = os.Environ()"}},
	{name: "an unused exception", want: "unused exception of a for os.Environ", check: usesOf(rule{"a", "os.Environ", "."})},

	{name: "init", want: "a/a.go:2: func init", check: checkInit,
		files: map[string]string{"a/a.go": "package a\nfunc init() {}\nfunc (T) init() {}"}},

	{name: "no package comment", want: "a has 0 package comments", check: checkPackages,
		files: map[string]string{"a/a.go": "package a", "a/a_test.go": "// Package a tests.\npackage a"}},
	{name: "two package comments", want: "a has 2 package comments", check: checkPackages,
		files: map[string]string{"a/a.go": "// Package a is one.\npackage a", "a/b.go": "// Package a is two.\npackage a"}},
	{name: "a package comment in another form", want: `starts with "Package a"`, check: checkPackages,
		files: map[string]string{"a/a.go": "// Package about.\npackage a"}},
	{name: "a command", check: checkPackages,
		files: map[string]string{"cmd/hub/main.go": "// Command hub serves.\npackage main"}},
	{name: "a vague name", want: "package util has a vague name", check: checkPackages,
		files: map[string]string{"a/util/a.go": "// Package util is.\npackage util"}},

	{name: "a long file", want: "a/a_test.go has 401 lines, more than 400", check: lengthsOf,
		files: map[string]string{"a/a_test.go": "package a" + strings.Repeat("\n", 401), "a/b.go": "package a" + strings.Repeat("\n", 400),
			"a/c.go": "// Code generated by x. DO NOT EDIT.\n\npackage a" + strings.Repeat("\n", 401)}},
	{name: "a long main", want: "cmd/x/main.go has 121 lines", check: lengthsOf,
		files: map[string]string{"cmd/x/main.go": "package main" + strings.Repeat("\n", 121), "cmd/x/y.go": "package main" + strings.Repeat("\n", 121)}},

	{name: "too many names", want: "a exports 5 names, more than 4", check: func(t *tree) []string { return checkBudgets(t, map[string]int{"a": 4, "b": 1}) },
		files: map[string]string{
			"a/a.go":         "package a\nconst A, b = 1, 2\nvar C int\ntype D struct{ Field int }\nfunc E() {}\nfunc (D) Method() {}\nfunc f() {}",
			"a/a_windows.go": "package a\nfunc E() {}\nfunc G() {}",
			"a/a_test.go":    "package a\nfunc TestX() {}",
			"b/b.go":         "package b\ntype B int",
		}},

	{name: "no reason", want: "the row of a has no reason", check: func(*tree) []string { return checkReasons([]rule{{"a", "b", ""}}) }},
	{name: "a duplicate row", want: "duplicate row a b", check: func(*tree) []string { return checkReasons([]rule{{"a", "b", "."}, {"a", "b", "."}}) }},
}

func arrowsOf(rows ...rule) func(*tree) []string {
	return func(t *tree) []string { return checkArrows(t, rows) }
}

func modulesOf(rows ...rule) func(*tree) []string {
	return func(t *tree) []string { return checkModules(t, rows) }
}

func usesOf(exceptions ...rule) func(*tree) []string {
	return func(t *tree) []string { return checkUses(t, uses, exceptions) }
}

func lengthsOf(t *tree) []string { return checkLengths(t, lengths) }

func TestChecks(t *testing.T) {
	t.Parallel()
	for _, row := range checkRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			tree := treeOf(t, row.files, row.deps)
			faults := row.check(tree)
			if row.want == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], row.want)
		})
	}
}

// treeOf parses a tree of sources, and lines "package: imports" whose left side is in this module
// unless it has a dot.
func treeOf(t *testing.T, files map[string]string, deps string) *tree {
	t.Helper()
	made := &tree{deps: map[string][]string{}}
	for name, src := range files {
		f, err := parse(name, []byte(src))
		require.NoError(t, err)
		made.files = append(made.files, f)
	}
	for line := range strings.Lines(deps) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if fromStdlib(pkg) {
			pkg = module + "/" + pkg
		}
		made.deps[pkg] = strings.Fields(strings.ReplaceAll(imports, "module/", module+"/"))
	}
	return made
}
