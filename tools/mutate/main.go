// Command mutate changes the code of a package in one place at a time, and runs the tests of the
// package that run this place. A change that no test detects is printed: it is a missing test, or
// has no effect.
//
//	mutate ./runtime/wire
//
// Comparisons, boundaries, logical and arithmetic operators, conditions, numbers, branches, calls
// and assignments are changed. All changes are compiled into one binary, in which an environment
// variable chooses one. Changes of constants do not compile that way, and are counted only. Further
// arguments are packages whose tests run too.
//
// tools/mutate/explained has a file for each package, such as runtime_wire.txt, with the changes
// that no test should detect. A line is a change as it is printed, after its line number, and the
// reason. The second change of a function with the same text has the number 2:
//
//	codec.go take: removal in "x = y": the value is not read again
//	codec.go take: removal in "x = y" (2): y is 0
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
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

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	most := flags.Int("n", 0, "largest `number` of changes, which are chosen at random; 0 for all")
	seed := flags.Uint64("seed", 1, "`seed` of the choice")
	limit := flags.Duration("timeout", time.Minute, "`time` after which the tests of a change are ended")
	chosen := flags.String("run", "", "`regexp` of the changes, as they are printed without the line")
	explained := flags.String("explained", "tools/mutate/explained", "`directory` of the changes that are not printed")
	verbose := flags.Bool("v", false, "print the other changes too, with their outcome")
	workers := flags.Int("workers", 2, "`number` of tests that run at the same time")
	if err := flags.Parse(args); err != nil {
		return err
	}

	if flags.NArg() < 1 {
		return errors.New("name the directory of a package")
	}

	which, err := regexp.Compile(*chosen)
	if err != nil {
		return err
	}

	reasons, err := readReasons(filepath.Join(*explained, strings.ReplaceAll(filepath.Clean(flags.Arg(0)), "/", "_")+".txt"))
	if err != nil {
		return err
	}

	pkg, err := load(flags.Arg(0), os.ReadFile)
	if err != nil {
		return err
	}

	all := len(pkg.mutants)
	pkg.mutants = slices.DeleteFunc(pkg.mutants, func(m mutant) bool { return !which.MatchString(m.name) })
	if *most > 0 && *most < len(pkg.mutants) {
		rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(pkg.mutants), func(i, j int) {
			pkg.mutants[i], pkg.mutants[j] = pkg.mutants[j], pkg.mutants[i]
		})
		pkg.mutants = pkg.mutants[:*most]
	}

	if len(pkg.mutants) == 0 {
		return fmt.Errorf("none of the %d changes is chosen", all)
	}

	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}

	defer func() { _ = os.RemoveAll(dir) }() // a temporary directory
	binaries, removed, err := pkg.build(ctx, dir, flags.Args())
	if err != nil {
		return err
	}

	if *verbose {
		for _, m := range removed {
			_, _ = fmt.Fprintf(stdout, "does not compile: %s\n", m)
		}
	}

	tests, err := measureAll(ctx, binaries, flags.Args(), all+1, *workers, *limit, stdout)
	if err != nil {
		return err
	}

	var mu sync.Mutex
	counts := map[string]int{}
	err = each(len(pkg.mutants), *workers, func(i int) error {
		m := pkg.mutants[i]
		outcome, err := try(ctx, tests, m, *limit)
		if err != nil {
			return err
		}

		if (outcome == survived || outcome == unseen) && reasons[m.name] {
			outcome = "explained"
		}

		mu.Lock()
		defer mu.Unlock()
		counts[outcome]++
		if *verbose || outcome == survived || outcome == unseen {
			_, err = fmt.Fprintf(stdout, "%s: %s\n", outcome, m)
		}

		return err
	})
	_, printErr := fmt.Fprintf(stdout, "%s: %d of %d changes: %d killed, %d killed by the time limit, %d explained, %d survived, %d not run by a test; %d do not compile\n",
		filepath.Clean(flags.Arg(0)), len(pkg.mutants), all, counts[killed], counts[late], counts["explained"], counts[survived], counts[unseen], len(removed))
	return errors.Join(err, printErr)
}

// explainedLine is the name of a change and its reason.
var explainedLine = regexp.MustCompile(`^(.*"(?: \(\d+\))?): `)

// readReasons returns the names of the changes that a file explains.
func readReasons(path string) (map[string]bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	defer func() { _ = f.Close() }() // read only
	reasons := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if match := explainedLine.FindStringSubmatch(lines.Text()); match != nil {
			reasons[match[1]] = true
		}
	}

	return reasons, lines.Err()
}
