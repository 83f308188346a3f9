// Command lint analyzes the packages of a module with the analyzers of go vet, staticcheck and some
// others. It runs in the root of the repository. It prints what the analyzers report, and exits
// with 1 if that is anything. A comment //nolint:NAME // REASON permits it on its line and the next
// one.
//
// Dependencies are read from the export data of the compiler and not analyzed, unlike with go vet,
// so that most of a run is the check of types.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/bombsimon/wsl/v5"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/gostaticanalysis/nilerr"
	"github.com/kisielk/errcheck/errcheck"
	"github.com/ryanrolds/sqlclosecheck/pkg/analyzer"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/packages"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/unused"
)

// linter is an analyzer with the name that a nolint comment has for it.
type linter struct {
	*analysis.Analyzer
	name  string
	tests bool // it also reports about test files and examples
}

func linters() []linter {
	if err := errcheck.Analyzer.Flags.Set("exclude", "tools/lint/errcheck.txt"); err != nil {
		panic(err)
	}

	all := []linter{
		{errcheck.Analyzer, "errcheck", false},
		{errorlint.NewAnalyzer(errorlint.WithAllowedErrors([]errorlint.AllowPair{
			{Err: "io.EOF", Fun: "(*github.com/seed93082962/agenthost/sse.Decoder).Next"}, // it returns the exact value
		})), "errorlint", true},
		{ineffassign.Analyzer, "ineffassign", true},
		{nilerr.Analyzer, "nilerr", true},
		{bodyclose.Analyzer, "bodyclose", false}, // does not detect Close in t.Cleanup
		{analyzer.NewAnalyzer(), "sqlclosecheck", false},
		{wsl.NewAnalyzer(&wsl.Configuration{Checks: wsl.CheckSet{wsl.CheckAfterBlock: {}}}), "wsl", false}, // a blank line after a block
		{orCall, "orcall", true},
	}
	for _, a := range vet {
		all = append(all, linter{a, "vet", true})
	}

	for _, a := range slices.Concat(staticcheck.Analyzers, simple.Analyzers) {
		if !a.Doc.NonDefault && a.Doc.Severity != lint.SeverityHint {
			all = append(all, linter{a.Analyzer, "staticcheck", true})
		}
	}

	return all
}

func main() {
	dir := flag.String("C", "", "the `directory` of the module, if it is not the current one")
	tags := flag.String("tags", "", "build `tags`, separated by commas")
	flag.Parse()
	found, err := run(*dir, *tags, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(2)
	}

	for _, text := range found {
		fmt.Println(text)
	}

	if len(found) > 0 {
		os.Exit(1)
	}
}

// run returns the reports about the packages, sorted.
func run(dir, tags string, patterns []string) ([]string, error) {
	cfg := &packages.Config{Dir: dir, BuildFlags: []string{"-tags=" + tags}, Tests: true, Mode: packages.LoadImports | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax |
		packages.NeedTypesInfo | packages.NeedFiles | packages.NeedExportFile | packages.NeedModule | packages.NeedForTest}
	loaded, err := packages.Load(cfg, patterns...)
	if err != nil {
		return nil, err
	}

	tested := map[string]bool{} // packages whose test variant has the same files
	for _, p := range loaded {
		for _, e := range p.Errors {
			err = errors.Join(err, e)
		}

		if p.ForTest == p.PkgPath {
			tested[p.PkgPath] = true
		}
	}

	if err != nil {
		return nil, err
	}

	all := linters()
	var mu sync.Mutex
	found, used := map[string]bool{}, map[string]bool{}
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, p := range loaded {
		if p.ForTest == "" && tested[p.PkgPath] || strings.HasSuffix(p.PkgPath, ".test") {
			continue
		}

		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			w, failed := analyze(p, all)
			mu.Lock()
			defer mu.Unlock()
			if err = errors.Join(err, failed); failed != nil {
				return
			}

			for _, text := range w.reports {
				found[text] = true
			}

			objects := w.results[unused.Analyzer.Analyzer].(unused.Result)
			for _, o := range objects.Used {
				used[unusedText(o)] = true
			}

			for _, o := range objects.Unused {
				if !w.permitted(o.Position, "unused") {
					found[unusedText(o)] = true
				}
			}
		})
	}

	running.Wait()
	maps.DeleteFunc(found, func(text string, _ bool) bool { return used[text] }) // by another variant of the package
	return slices.Sorted(maps.Keys(found)), err
}

func unusedText(o unused.Object) string {
	return fmt.Sprintf("%s: %s %s is not used (unused)", o.Position, o.Kind, o.Name)
}

// analysisOf is the work on one package.
type analysisOf struct {
	pkg     *packages.Package
	permit  map[string]map[int][]string // by file and line, the linters of its nolint comment
	results map[*analysis.Analyzer]any
	facts   map[any]analysis.Fact
	reports []string
}

func analyze(p *packages.Package, all []linter) (*analysisOf, error) {
	w := &analysisOf{pkg: p, permit: permissions(p), results: map[*analysis.Analyzer]any{}, facts: map[any]analysis.Fact{}}
	for _, l := range all {
		if err := w.run(l.Analyzer, l); err != nil {
			return nil, fmt.Errorf("analyze %s with %s: %w", p.PkgPath, l.Name, err)
		}
	}

	return w, w.run(unused.Analyzer.Analyzer, linter{})
}

var nolint = regexp.MustCompile(`^//nolint:([\w,]+) // \S`)

func permissions(p *packages.Package) map[string]map[int][]string {
	all := map[string]map[int][]string{}
	for _, f := range p.Syntax {
		lines := map[int][]string{}
		all[p.Fset.File(f.FileStart).Name()] = lines
		for _, group := range f.Comments {
			for _, c := range group.List {
				if match := nolint.FindStringSubmatch(c.Text); match != nil {
					lines[p.Fset.Position(c.Pos()).Line] = strings.Split(match[1], ",")
				}
			}
		}
	}

	return all
}

// run runs an analyzer after the ones whose results it takes. Only the linter itself reports.
func (w *analysisOf) run(a *analysis.Analyzer, l linter) error {
	if _, done := w.results[a]; done && a != l.Analyzer {
		return nil
	}

	inputs := map[*analysis.Analyzer]any{}
	for _, needed := range a.Requires {
		if err := w.run(needed, linter{}); err != nil {
			return err
		}

		inputs[needed] = w.results[needed]
	}

	p := w.pkg
	pass := &analysis.Pass{
		Analyzer: a, Fset: p.Fset, Files: p.Syntax, OtherFiles: p.OtherFiles, IgnoredFiles: p.IgnoredFiles, Pkg: p.Types, TypesInfo: p.TypesInfo,
		TypesSizes: p.TypesSizes, ResultOf: inputs, ReadFile: os.ReadFile,
		Report: func(d analysis.Diagnostic) {
			if l.Analyzer != nil {
				w.report(l, d)
			}
		},
		ImportObjectFact:  func(o types.Object, f analysis.Fact) bool { return w.fact(factOf{o, reflect.TypeOf(f)}, f) },
		ExportObjectFact:  func(o types.Object, f analysis.Fact) { w.facts[factOf{o, reflect.TypeOf(f)}] = f },
		ImportPackageFact: func(o *types.Package, f analysis.Fact) bool { return w.fact(factOf{o, reflect.TypeOf(f)}, f) },
		ExportPackageFact: func(f analysis.Fact) { w.facts[factOf{p.Types, reflect.TypeOf(f)}] = f },
		AllObjectFacts:    func() []analysis.ObjectFact { return nil },
		AllPackageFacts:   func() []analysis.PackageFact { return nil },
	}
	if p.Module != nil {
		pass.Module = &analysis.Module{Path: p.Module.Path, Version: p.Module.Version, GoVersion: p.Module.GoVersion}
	}

	result, err := a.Run(pass)
	w.results[a] = result
	return err
}

// factOf identifies a fact of a type about an object or a package.
type factOf struct {
	about any
	fact  reflect.Type
}

// fact reads a fact that was found in this package.
func (w *analysisOf) fact(of factOf, f analysis.Fact) bool {
	known, ok := w.facts[of]
	if ok {
		reflect.ValueOf(f).Elem().Set(reflect.ValueOf(known).Elem())
	}

	return ok
}

func (w *analysisOf) report(l linter, d analysis.Diagnostic) {
	at := w.pkg.Fset.Position(d.Pos)
	generated := slices.ContainsFunc(w.pkg.Syntax, func(f *ast.File) bool {
		return f.FileStart <= d.Pos && d.Pos < f.FileEnd && ast.IsGenerated(f)
	})
	short := strings.HasSuffix(at.Filename, "_test.go") || strings.Contains(at.Filename, "/examples/")
	if generated || short && !l.tests || w.permitted(at, l.name) {
		return
	}

	w.reports = append(w.reports, fmt.Sprintf("%s: %s (%s %s)", at, d.Message, l.name, l.Name))
}

func (w *analysisOf) permitted(at token.Position, name string) bool {
	lines := w.permit[at.Filename]
	return slices.Contains(lines[at.Line], name) || slices.Contains(lines[at.Line-1], name)
}
