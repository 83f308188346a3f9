// Command testgate filters `go test -json` in `make test`. It prints the output of plain `go test`:
// one line for a passing package, and only the output of failed tests for a failing one. It exits
// with 1 if a test failed or was skipped, if a package did not complete, or if no test ran. `go
// test` itself reports a skipped test and an empty run as a success.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testgate:", err)
		os.Exit(1)
	}
}

// event is one line of `go test -json`; see `go doc test2json` and, for build events, `go help
// buildjson`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build event, instead of Package
	Test        string // "" for the whole package
	Output      string
	FailedBuild string
}

func run(in io.Reader, out io.Writer) error {
	g := gate{out: out, open: map[string]*pkg{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				g.add(e)
			} else {
				fmt.Fprintf(out, "%s", line)
			}
		}

		if err == io.EOF {
			return g.verdict()
		}

		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
	}
}

type gate struct {
	out     io.Writer
	open    map[string]*pkg // packages that have not completed
	passed  int             // tests and subtests
	failed  int
	skipped []string // package and name of each
	broken  int      // packages that failed, including failed builds
}

// pkg holds the output of a package until its result decides which of it is printed.
type pkg struct {
	lines  []event
	passed map[string]bool
}

func (g *gate) add(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(g.out, e.Output)
		return
	}

	if e.Package == "" {
		return
	}

	p := g.open[e.Package]
	if p == nil {
		p = &pkg{passed: map[string]bool{}}
		g.open[e.Package] = p
	}

	switch {
	case e.Action == "output":
		p.lines = append(p.lines, e)
	case e.Test == "":
		g.end(p, e)
	case e.Action == "pass":
		g.passed++
		p.passed[e.Test] = true
	case e.Action == "fail":
		g.failed++
	case e.Action == "skip":
		g.skipped = append(g.skipped, e.Package+" "+e.Test)
		p.print(g.out, func(l event) bool { return l.Test == e.Test && !isFrame(l.Output) })
	}
}

// end processes the result of a package. A package without test files ends with "skip", which is
// not a skipped test.
func (g *gate) end(p *pkg, e event) {
	switch e.Action {
	case "pass", "skip":
		p.print(g.out, func(l event) bool {
			return l.Test == "" && (strings.HasPrefix(l.Output, "ok ") || strings.HasPrefix(l.Output, "? "))
		})
	case "fail":
		g.broken++
		p.print(g.out, func(l event) bool { return !p.passed[l.Test] && !isFrame(l.Output) })
	default: // "start"
		return
	}

	delete(g.open, e.Package)
}

func (p *pkg) print(out io.Writer, want func(event) bool) {
	for _, l := range p.lines {
		if want(l) {
			fmt.Fprint(out, l.Output)
		}
	}
}

// isFrame reports whether a line was added by the testing package around a test's output.
func isFrame(line string) bool {
	for _, frame := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS"} {
		if strings.HasPrefix(strings.TrimLeft(line, " "), frame) {
			return true
		}
	}

	return false
}

func (g *gate) verdict() error {
	for name, p := range g.open {
		g.broken++
		p.print(g.out, func(event) bool { return true })
		fmt.Fprintf(g.out, "FAIL\t%s\tdid not come to its end\n", name)
	}

	fmt.Fprintf(g.out, "%d passed, %d failed, %d skipped\n", g.passed, g.failed, len(g.skipped))
	switch {
	case g.broken > 0 || g.failed > 0:
		return fmt.Errorf("run tests: failed packages: %d", g.broken)
	case len(g.skipped) > 0:
		return fmt.Errorf("run tests: skipped tests: %s", strings.Join(g.skipped, ", "))
	case g.passed == 0:
		return fmt.Errorf("run tests: no test ran")
	}

	return nil
}
