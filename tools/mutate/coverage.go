package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/tools/cover"
)

// measured is a test with its time and what it runs.
type measured struct {
	name     string
	took     time.Duration
	profiles []*cover.Profile
}

// measure runs each test of a package with a profile of its own, workers at a time. The result
// begins with the quickest test.
func measure(ctx context.Context, pkg string, workers int) ([]measured, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	binary := filepath.Join(dir, "tests")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-cover", "-o", binary, pkg).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build tests: %w: %s", err, out)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Dir = pkg
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("run tests %q: %w: %s", args, err, out)
		}
		return string(out), err
	}
	list, err := run("-test.list=^(Test|Fuzz|Example)")
	names := strings.Fields(list)
	all, errs := make([]measured, len(names)), make([]error, len(names))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				profile, began := filepath.Join(dir, names[i]), time.Now()
				if _, errs[i] = run("-test.run=^"+names[i]+"$", "-test.coverprofile="+profile); errs[i] == nil {
					all[i] = measured{name: names[i], took: time.Since(began)}
					all[i].profiles, errs[i] = cover.ParseProfiles(profile)
				}
			}
		})
	}
	wait.Wait()
	slices.SortFunc(all, func(a, b measured) int { return cmp.Compare(a.took, b.took) })
	return all, errors.Join(append(errs, err)...)
}

// quick bounds the time of the tests that run first for a change, if there are several.
const quick = 10 * time.Second

// tiers returns the names of the tests that run a change: the quickest ones, and the others.
func tiers(all []measured, m mutant) (first, others []string) {
	var took time.Duration
	for _, one := range all {
		if !one.runs(m) {
			continue
		}
		if took += one.took; took < quick || len(first) == 0 {
			first = append(first, one.name)
		} else {
			others = append(others, one.name)
		}
	}
	return first, others
}

// runs reports whether a test runs a change. A profile does not have conditions of a case: the
// tests of such a change are those that run the function.
func (t measured) runs(m mutant) bool {
	for _, p := range t.profiles {
		if filepath.Base(p.FileName) != filepath.Base(m.file) {
			continue
		}
		known, runs := find(p, m.at)
		if !known {
			known, runs = find(p, m.body)
		}
		return runs || !known
	}
	return true // the file has no functions, and every test may read its variables
}

// find reports whether a profile has a place, and whether it ran.
func find(p *cover.Profile, at place) (known, runs bool) {
	for _, b := range p.Blocks {
		if !at.before(place{b.StartLine, b.StartCol}) && at.before(place{b.EndLine, b.EndCol}) {
			known = true
			runs = runs || b.Count > 0
		}
	}
	return known, runs
}

// place is a line and a column of a file, from 1.
type place struct{ line, column int }

func (p place) before(other place) bool {
	return p.line < other.line || p.line == other.line && p.column < other.column
}
