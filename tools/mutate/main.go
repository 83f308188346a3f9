// Command mutate changes the code of a package in one place at a time, and runs the tests of the
// package. A change that no test detects is printed: it is a missing test, or has no effect.
//
//	mutate -n 100 ./runtime/wire
//
// Comparisons, boundaries, logical and arithmetic operators, conditions, numbers, branches, calls
// and assignments are changed. The files themselves are not: the go command reads an overlay.
//
// With -cover, each test first runs once with a profile, and a change is tested only by the tests
// that run it, the quickest ones first. Whether a test runs a line may depend on time: run all
// tests for a change that is printed.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// outcomes of a mutant.
const (
	killed   = "killed"
	survived = "survived"
	invalid  = "does not compile"
	late     = "killed by the time limit"
)

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	most := flags.Int("n", 100, "largest `number` of changes, which are chosen at random")
	seed := flags.Uint64("seed", 1, "`seed` of the choice")
	limit := flags.Duration("timeout", time.Minute, "`time` after which the tests of a change are ended")
	slow := flags.String("slow", "", "`regexp` of slow tests, which run only for the changes that the others do not detect")
	files := flags.String("files", "", "`regexp` of the names of the files that are changed")
	covered := flags.Bool("cover", false, "run only the tests that run the change")
	verbose := flags.Bool("v", false, "print the other changes too, with their outcome")
	workers := flags.Int("workers", 2, "`number` of changes that are tested at the same time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name the directory of one package")
	}
	all, err := mutantsOf(flags.Arg(0))
	if err != nil {
		return err
	}
	chosenFiles, err := regexp.Compile(*files)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !chosenFiles.MatchString(filepath.Base(m.file)) })
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	t := &tester{pkg: flags.Arg(0), limit: *limit, slow: *slow, verbose: *verbose, stdout: stdout, counts: map[string]int{}}
	if outcome, out, err := t.test(ctx, ""); err != nil || outcome != survived {
		return fmt.Errorf("the tests fail without a change: %s: %w", out, cmp.Or(err, errors.New(outcome)))
	}
	if *covered {
		if t.tests, err = measure(ctx, t.pkg, *workers); err != nil {
			return err
		}
	}
	chosen := make(chan mutant)
	go func() {
		defer close(chosen)
		for _, m := range all {
			if t.tested() >= *most {
				return
			}
			chosen <- m
		}
	}()
	var wait sync.WaitGroup
	for range *workers {
		wait.Go(func() {
			for m := range chosen {
				t.try(ctx, m)
			}
		})
	}
	wait.Wait()
	fmt.Fprintf(stdout, "%s: %d of %d changes tested: %d killed, %d killed by the time limit, %d survived; %d do not compile\n",
		t.pkg, t.tested(), len(all), t.counts[killed], t.counts[late], t.counts[survived], t.counts[invalid])
	return errors.Join(t.errs...)
}

// tester tests the mutants of a package.
type tester struct {
	pkg     string
	limit   time.Duration
	slow    string
	verbose bool
	tests   []measured // nil without -cover

	mu     sync.Mutex // guards the fields below
	stdout io.Writer
	counts map[string]int
	errs   []error
}

// tested returns the number of mutants that compile.
func (t *tester) tested() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[killed] + t.counts[late] + t.counts[survived]
}

// try tests a mutant and records the outcome.
func (t *tester) try(ctx context.Context, m mutant) {
	outcome, err := t.outcome(ctx, m)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.errs = append(t.errs, err)
		return
	}
	t.counts[outcome]++
	if t.verbose {
		_, err = fmt.Fprintf(t.stdout, "%s: %s\n", outcome, m)
	} else if outcome == survived {
		_, err = fmt.Fprintln(t.stdout, m)
	}
	if err != nil {
		t.errs = append(t.errs, err)
	}
}

// outcome runs the tests with an overlay that has the changed file.
func (t *tester) outcome(ctx context.Context, m mutant) (string, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, slices.Concat(text[:m.from], []byte(m.text), text[m.to:]), 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {m.file: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	for _, which := range t.steps(m) {
		if outcome, _, err := t.test(ctx, overlay, which...); err != nil || outcome != survived {
			return outcome, err
		}
	}
	return survived, nil
}

// steps returns the arguments of the runs of go test for a change, each for one that the runs
// before did not detect.
func (t *tester) steps(m mutant) (steps [][]string) {
	if t.tests == nil {
		if t.slow == "" {
			return [][]string{{"-run=."}}
		}
		return [][]string{{"-skip=" + t.slow}, {"-run=" + t.slow}}
	}
	first, others := tiers(t.tests, m)
	for _, names := range [][]string{first, others} {
		if len(names) > 0 {
			steps = append(steps, []string{only(names), "-skip=" + t.slow})
		}
	}
	switch {
	case len(steps) == 0:
		return [][]string{{"-run=^$"}} // whether it compiles
	case t.slow != "":
		steps = append(steps, []string{only(slices.Concat(first, others))})
	}
	return steps
}

func only(names []string) string { return "-run=^(" + strings.Join(names, "|") + ")$" }

// test runs the tests of the package, and returns the outcome and the output.
func (t *tester) test(ctx context.Context, overlay string, which ...string) (string, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*t.limit) // also the build
	defer cancel()
	args := slices.Concat([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=" + t.limit.String(), "-overlay=" + overlay}, which, []string{t.pkg})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return survived, out, nil
	case ctx.Err() != nil || bytes.Contains(out, []byte("panic: test timed out")):
		return late, out, nil
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return invalid, out, nil
	case failed:
		return killed, out, nil
	}
	return "", out, err
}
