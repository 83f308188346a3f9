package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// build builds the tests of packages, with the mutants of l in the package of l. Mutants that do
// not compile are removed from l and returned. The binaries are in dir.
func (l *loaded) build(ctx context.Context, dir string, packages []string) (binaries []string, removed []mutant, err error) {
	for {
		overlay, err := l.overlay(dir)
		if err != nil {
			return nil, removed, err
		}

		out, err := exec.CommandContext(ctx, "go", "build", "-gcflags=-e", "-overlay="+overlay, l.dir).CombinedOutput()
		if err == nil {
			for i, pkg := range packages {
				binary := filepath.Join(dir, "tests"+strconv.Itoa(i))
				cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o", binary, pkg)
				if out, err := cmd.CombinedOutput(); err != nil {
					return nil, removed, fmt.Errorf("build tests of %s: %w: %s", pkg, err, out)
				}

				if _, err := os.Stat(binary); err != nil {
					return nil, removed, fmt.Errorf("%s has no tests: %w", pkg, err)
				}

				binaries = append(binaries, binary)
			}

			return binaries, removed, nil
		}

		wrong := l.rejected(out)
		if len(wrong) == 0 {
			return nil, removed, fmt.Errorf("build %s: %w: %s", l.dir, err, out)
		}

		removed = append(removed, wrong...)
		l.mutants = slices.DeleteFunc(l.mutants, func(m mutant) bool {
			return slices.ContainsFunc(wrong, func(w mutant) bool { return w.id == m.id })
		})
	}
}

// overlay writes the changed files and returns the name of the overlay for the go command.
func (l *loaded) overlay(dir string) (string, error) {
	replace, most := map[string]string{}, 0
	for i, s := range l.sources {
		var edits []edit
		for _, m := range l.mutants {
			most = max(most, m.id)
			if m.file == s.path {
				edits = append(edits, m.edits...)
			}
		}

		changed := filepath.Join(dir, strconv.Itoa(i)+".go")
		if err := os.WriteFile(changed, apply(s.text, edits), 0o600); err != nil {
			return "", err
		}

		replace[s.path] = changed
	}

	added := filepath.Join(dir, "switches.go")
	if err := os.WriteFile(added, fmt.Appendf(nil, switches, l.name, most+1), 0o600); err != nil {
		return "", err
	}

	replace[filepath.Join(l.dir, "mutant_switches.go")] = added
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}

	overlay := filepath.Join(dir, "overlay.json")
	return overlay, errors.Join(os.WriteFile(overlay, list, 0o600))
}

var position = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

// rejected returns the mutants at the lines of the errors of a compiler: those that begin there, or
// else those that have the line, or else the last one before it that leaves a loop, after which a
// return is missing. A changed file is named after the index of its source.
func (l *loaded) rejected(out []byte) (wrong []mutant) {
	for _, match := range position.FindAllSubmatch(out, -1) {
		line, err := strconv.Atoi(string(match[2]))
		file, err2 := strconv.Atoi(strings.TrimSuffix(filepath.Base(string(match[1])), ".go"))
		if err != nil || err2 != nil {
			continue
		}

		var begin, has, leaves []mutant
		for _, m := range l.mutants {
			switch {
			case m.file != l.sources[file].path:
			case m.line == line:
				begin = append(begin, m)
			case m.line < line && line <= m.end:
				has = append(has, m)
			case m.line < line && strings.Contains(m.name, becomes("continue", "break")):
				leaves = []mutant{m}
			}
		}

		switch {
		case len(begin) > 0:
			wrong = append(wrong, begin...)
		case len(has) > 0:
			wrong = append(wrong, has...)
		default:
			wrong = append(wrong, leaves...)
		}
	}

	return wrong
}
