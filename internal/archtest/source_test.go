package archtest_test

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// library reports whether other programs link the code. Code of test support is linked only into
// tests, but follows the same rules.
func (f *file) library() bool {
	return !f.test() && f.ast.Name.Name != "main" && !matches("cmd/...", f.pkg) && !matches("examples/...", f.pkg)
}

// checkUses finds forbidden names of the standard library. It uses the name of the import in the
// file; linters forbid a local variable that hides an import.
func checkUses(t *tree, rows, exceptions []rule) (faults []string) {
	usedExceptions := map[rule]bool{}
	for _, f := range t.files {
		imports := f.imports()
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			base, ok := sel.X.(*ast.Ident)
			if !ok || imports[base.Name] == "" {
				return true
			}
			used := imports[base.Name] + "." + sel.Sel.Name
			for _, r := range rows {
				if r.subject == inTests && !f.test() || r.subject == inLibraries && !f.library() || !usesAny(r.object, used) {
					continue
				}
				i := slices.IndexFunc(exceptions, func(e rule) bool { return e.subject == f.pkg && usesAny(e.object, used) })
				if i >= 0 {
					usedExceptions[exceptions[i]] = true
					continue
				}
				faults = append(faults, fmt.Sprintf("%s: %s: %s", f.at(sel.Pos()), used, r.reason))
			}
			return true
		})
	}
	for _, e := range exceptions {
		if !usedExceptions[e] {
			faults = append(faults, fmt.Sprintf("unused exception of %s for %s", e.subject, e.object))
		}
	}
	return faults
}

func usesAny(patterns, used string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool {
		start, open := strings.CutSuffix(p, "*")
		return p == used || open && strings.HasPrefix(used, start)
	})
}

// launcher has an init function: it must run before those of other packages, and an embedder's main
// function must not need a line for it.
const launcher = "runtime/sandbox/internal/launch"

// checkInit finds init functions, which run regardless of what an importer needs.
func checkInit(t *tree) (faults []string) {
	for _, f := range t.files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && f.pkg != launcher {
				faults = append(faults, f.at(d.Pos())+": func init runs in every importing program: initialize in New")
			}
		}
	}
	return faults
}

// checkPackages checks that each package has a specific name and one package comment in godoc's
// form.
func checkPackages(t *tree) (faults []string) {
	comments := map[string]int{}
	for _, f := range t.files {
		name := f.ast.Name.Name
		if matchesAny(vagueNames, name) || matchesAny(vagueNames, path.Base(f.pkg)) {
			faults = append(faults, fmt.Sprintf("%s: package %s has a vague name", f.path, name))
		}
		if f.test() {
			continue
		}
		comments[f.pkg] += 0
		if f.ast.Doc == nil {
			continue
		}
		comments[f.pkg]++
		want := "Package " + name
		if name == "main" {
			want = "Command " + path.Base(f.pkg)
		}
		if text := f.ast.Doc.Text(); !regexp.MustCompile(`^` + want + `\s`).MatchString(text) {
			faults = append(faults, fmt.Sprintf("%s: the package comment starts with %q", f.path, want))
		}
	}
	for pkg, n := range comments {
		if n != 1 {
			faults = append(faults, fmt.Sprintf("%s has %d package comments: one must describe its use", pkg, n))
		}
	}
	return faults
}

// checkLengths checks the lengths of files, except generated ones.
func checkLengths(t *tree, rows []length) (faults []string) {
	for _, f := range t.files {
		limit := 0
		for _, r := range rows {
			if matches(r.in, f.pkg) && (r.file == "" || r.file == path.Base(f.path)) {
				limit = r.limit
			}
		}
		if f.lines > limit && !ast.IsGenerated(f.ast) {
			faults = append(faults, fmt.Sprintf("%s has %d lines, more than %d: split it", f.path, f.lines, limit))
		}
	}
	return faults
}

// checkBudgets counts exported names, including those for other systems.
func checkBudgets(t *tree, budgets map[string]int) (faults []string) {
	names := map[string]map[string]bool{}
	for _, f := range t.files {
		if f.test() {
			continue
		}
		if names[f.pkg] == nil {
			names[f.pkg] = map[string]bool{}
		}
		for _, name := range exported(f.ast) {
			names[f.pkg][name] = true
		}
	}
	for pkg, budget := range budgets {
		if n := len(names[pkg]); n > budget {
			faults = append(faults, fmt.Sprintf("%s exports %d names, more than %d: unexport some", pkg, n, budget))
		}
	}
	return faults
}

// exported returns the top-level names that godoc lists; methods belong to their type.
func exported(f *ast.File) (names []string) {
	var all []*ast.Ident
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				all = append(all, d.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					all = append(all, s.Name)
				case *ast.ValueSpec:
					all = append(all, s.Names...)
				}
			}
		}
	}
	for _, n := range all {
		if n.IsExported() {
			names = append(names, n.Name)
		}
	}
	return names
}
