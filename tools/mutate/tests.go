package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// test is one test of a binary, with its time and the mutants whose places it runs.
type test struct {
	binary, dir string
	name        string
	took        time.Duration
	seen        []byte // by id
	failure     error  // without a mutant
}

// outcomes of a mutant.
const (
	killed   = "killed"
	late     = "killed by the time limit"
	survived = "survived"
	unseen   = "not run by a test"
)

// runTests runs tests of one binary, and returns killed, late or survived, and the output.
func runTests(ctx context.Context, tests []test, limit time.Duration, env ...string) (string, []byte, error) {
	tmp, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", nil, err
	}

	defer func() { _ = os.RemoveAll(tmp) }() // of tests that were killed
	names := make([]string, len(tests))
	for i, t := range tests {
		names[i] = t.name
	}

	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, tests[0].binary, "-test.run=^("+strings.Join(names, "|")+")$", "-test.failfast", "-test.parallel=8", "-test.timeout="+limit.String())
	cmd.Dir, cmd.Env = tests[0].dir, append(os.Environ(), append(env, "TMPDIR="+tmp)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return survived, out.Bytes(), nil
	case ctx.Err() != nil || bytes.Contains(out.Bytes(), []byte("panic: test timed out")):
		return late, out.Bytes(), nil
	case failed:
		return killed, out.Bytes(), nil
	case errors.Is(err, exec.ErrWaitDelay):
		return survived, out.Bytes(), nil // a child holds the output
	}

	return "", out.Bytes(), err
}

// list returns the tests of a binary.
func list(ctx context.Context, binary, dir string) (all []test, err error) {
	cmd := exec.CommandContext(ctx, binary, "-test.list=^(Test|Fuzz|Example)")
	cmd.Dir = dir
	out, err := cmd.Output()
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example") {
			all = append(all, test{binary: binary, dir: dir, name: name})
		}
	}

	return all, err
}

// measure runs a test without a mutant.
func (t *test) measure(ctx context.Context, tmp string, mutants int, limit time.Duration) error {
	seen := filepath.Join(tmp, filepath.Base(t.binary)+t.name)
	if err := os.WriteFile(seen, make([]byte, mutants), 0o600); err != nil {
		return err
	}

	begin := time.Now()
	outcome, out, err := runTests(ctx, []test{*t}, limit, "MUTANT_SEEN="+seen)
	if err != nil {
		return err
	}

	if outcome != survived {
		t.failure = fmt.Errorf("%s fails without a change: %s: %s", t.name, outcome, out)
		return nil
	}

	t.took = time.Since(begin)
	t.seen, err = os.ReadFile(seen)
	return err
}

// each calls f for the numbers below n, workers at a time.
func each(n, workers int, f func(i int) error) error {
	numbers := make(chan int)
	var mu sync.Mutex
	var errs []error
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for i := range numbers {
				if err := f(i); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}

	for i := range n {
		numbers <- i
	}

	close(numbers)
	wait.Wait()
	return errors.Join(errs...)
}

// measureAll runs each test of the binaries once, and returns those that pass, the quickest first.
func measureAll(ctx context.Context, binaries, dirs []string, mutants, workers int, limit time.Duration, log io.Writer) ([]test, error) {
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}

	defer func() { _ = os.RemoveAll(tmp) }()
	var all []test
	for i, binary := range binaries {
		one, err := list(ctx, binary, dirs[i])
		if err != nil {
			return nil, err
		}

		all = append(all, one...)
	}

	err = each(len(all), workers, func(i int) error { return all[i].measure(ctx, tmp, mutants, limit) })
	all = slices.DeleteFunc(all, func(t test) bool {
		if t.failure != nil {
			_, _ = fmt.Fprintln(log, t.failure)
		}

		return t.failure != nil
	})
	slices.SortFunc(all, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	return all, err
}

// batch bounds the time of the tests that run in one process, if there are several.
const batch = 5 * time.Second

// try runs the tests that run the place of a mutant, until one fails.
func try(ctx context.Context, all []test, m mutant, limit time.Duration) (string, error) {
	var next []test
	var took time.Duration
	outcome := unseen
	run := func() (err error) {
		outcome, _, err = runTests(ctx, next, min(limit, 10*time.Second+4*took), "MUTANT="+strconv.Itoa(m.id))
		next, took = nil, 0
		return err
	}
	for _, t := range all {
		if m.id >= len(t.seen) || t.seen[m.id] == 0 {
			continue
		}

		if len(next) > 0 && (took+t.took > batch || next[0].binary != t.binary) {
			if err := run(); err != nil || outcome != survived {
				return outcome, err
			}
		}

		next, took = append(next, t), took+t.took
	}

	if len(next) > 0 {
		err := run()
		return outcome, err
	}

	return outcome, nil
}
