package archtest_test

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// library holds for code that other programs link. What tests import in a package of test support runs in tests alone,
// but it is held to the same.
func (f *file) library() bool {
	return !f.test() && f.ast.Name.Name != "main" && !fits("cmd/...", f.pkg) && !fits("examples/...", f.pkg)
}

// checkUses finds names of the standard library that rows forbid. It goes by the name of the import in the file: a local
// variable that hides an import could deceive it, and linters forbid that.
func checkUses(t *tree, rows, exceptions []rule) (faults []string) {
	excused := map[rule]bool{}
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
				if r.who == inTests && !f.test() || r.who == inLibraries && !f.library() || !usesAny(r.what, used) {
					continue
				}
				i := slices.IndexFunc(exceptions, func(e rule) bool { return e.who == f.pkg && usesAny(e.what, used) })
				if i >= 0 {
					excused[exceptions[i]] = true
					continue
				}
				faults = append(faults, fmt.Sprintf("%s: %s: %s", f.at(sel.Pos()), used, r.why))
			}
			return true
		})
	}
	for _, e := range exceptions {
		if !excused[e] {
			faults = append(faults, fmt.Sprintf("nothing needs the exception of %s for %s any more", e.who, e.what))
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

// checkInit finds init functions, which run whether or not the importer wants what they do.
func checkInit(t *tree) (faults []string) {
	for _, f := range t.files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				faults = append(faults, f.at(d.Pos())+": func init runs unasked: build it in New")
			}
		}
	}
	return faults
}

// checkPackages holds each package to a name that says what it is, and to one package comment in godoc's form.
func checkPackages(t *tree) (faults []string) {
	comments := map[string]int{}
	for _, f := range t.files {
		name := f.ast.Name.Name
		if fitsAny(vagueNames, name) || fitsAny(vagueNames, path.Base(f.pkg)) {
			faults = append(faults, fmt.Sprintf("%s: package %s is named for being there, not for what it is", f.path, name))
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
			faults = append(faults, fmt.Sprintf("%s has %d package comments: one tells a stranger how to use it", pkg, n))
		}
	}
	return faults
}

// checkLengths holds files to rows of lengths, generated ones aside.
func checkLengths(t *tree, rows []length) (faults []string) {
	for _, f := range t.files {
		most := 0
		for _, r := range rows {
			if fits(r.in, f.pkg) && (r.file == "" || r.file == path.Base(f.path)) {
				most = r.most
			}
		}
		if f.lines > most && !ast.IsGenerated(f.ast) {
			faults = append(faults, fmt.Sprintf("%s has %d lines, more than %d: it wants to be two files", f.path, f.lines, most))
		}
	}
	return faults
}

// checkBudgets counts exported names, those for other systems too.
func checkBudgets(t *tree, most map[string]int) (faults []string) {
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
	for pkg, budget := range most {
		if n := len(names[pkg]); n > budget {
			faults = append(faults, fmt.Sprintf("%s exports %d names, more than %d: unexport first", pkg, n, budget))
		}
	}
	return faults
}

// exported gives the top-level names that godoc lists; a method counts with its type.
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
