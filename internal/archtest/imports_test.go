package archtest_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// fits tells whether pattern is pkg, or "a/..." around it, or "*suffix" of its last name.
func fits(pattern, pkg string) bool {
	if pattern == "..." || pattern == pkg {
		return true
	}
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(path.Base(pkg), suffix)
	}
	above, ok := strings.CutSuffix(pattern, "/...")
	return ok && (pkg == above || strings.HasPrefix(pkg, above+"/"))
}

func fitsAny(patterns, pkg string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool { return fits(p, pkg) })
}

// rowOf finds the most exact row for a package.
func rowOf(rows []rule, pkg string) (row rule, found bool) {
	for _, r := range rows {
		if r.who == pkg {
			return r, true
		}
		if fits(r.who, pkg) && len(r.who) > len(row.who) {
			row, found = r, true
		}
	}
	return row, found
}

// fromStdlib holds for import paths whose first part has no dot, which the go command keeps for the standard library.
func fromStdlib(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

func isTestSupport(pkg string) bool { return fits("*test", pkg) }

// checkArrows holds the direct imports among our own packages to rows.
func checkArrows(t *tree, rows []rule) (faults []string) {
	for _, f := range t.files {
		row, ok := rowOf(rows, f.pkg)
		if !ok {
			faults = append(faults, fmt.Sprintf("%s: package %s has no row in arrows: give it one, with the reason", f.path, f.pkg))
			continue
		}
		if f.test() {
			continue
		}
		for _, importPath := range f.imports() {
			target, ours := relative(importPath)
			switch {
			case row.what == stdlib && (ours || !fromStdlib(importPath)):
				faults = append(faults, fmt.Sprintf("%s: imports %s, and may import the standard library alone: %s", f.path, target, row.why))
			case !ours:
			case isTestSupport(target) && !isTestSupport(f.pkg):
				faults = append(faults, fmt.Sprintf("%s: imports %s, which is for tests", f.path, target))
			case !fitsAny(row.what, target):
				faults = append(faults, fmt.Sprintf("%s: must not import %s: %s", f.path, target, row.why))
			}
		}
	}
	return faults
}

// checkNames finds names of our packages that no row of arrows stands for: a misspelt rule would hold nobody to anything.
func checkNames(names string, rows []rule) (faults []string) {
	for name := range strings.FieldsSeq(names) {
		known := func(r rule) bool { return fits(r.who, name) || fits(name, strings.TrimSuffix(r.who, "/...")) }
		if name[0] != '*' && !slices.ContainsFunc(rows, known) {
			faults = append(faults, name+" is named in a rule and has no row in arrows")
		}
	}
	return faults
}

// checkModules holds the direct imports of third-party packages, and of the few standard ones that have a row, to rows.
func checkModules(t *tree, rows []rule) (faults []string) {
	for _, f := range t.files {
		for _, target := range f.imports() {
			if _, ours := relative(target); ours {
				continue
			}
			i := slices.IndexFunc(rows, func(r rule) bool { return fitsAny(r.who, target) })
			switch {
			case i < 0 && (target == "C" || !fromStdlib(target)):
				faults = append(faults, fmt.Sprintf("%s: imports %s, which has no row in modules: give it one, with the reason", f.path, target))
			case i >= 0 && !f.test() && !fitsAny(rows[i].what, f.pkg):
				faults = append(faults, fmt.Sprintf("%s: must not import %s: %s", f.path, target, rows[i].why))
			}
		}
	}
	return faults
}

// checkReach follows imports through all packages, and shows the way to what must not be reached.
func checkReach(t *tree, rows []reach) (faults []string) {
	for importPath := range t.deps {
		pkg, ours := relative(importPath)
		if !ours {
			continue
		}
		for _, r := range rows {
			if !fits(r.who, pkg) {
				continue
			}
			way := t.way(importPath, func(target string) bool {
				name, ours := relative(target)
				return ours && fitsAny(r.ours, name) || !ours && fitsAny(r.others, target)
			})
			if way != nil {
				faults = append(faults, fmt.Sprintf("%s reaches what it must not: %s: %s", pkg, strings.Join(way, " -> "), r.why))
			}
		}
	}
	return faults
}

// way is a shortest chain of imports from a package to one that is sought, nil where there is none.
func (t *tree) way(start string, sought func(string) bool) []string {
	from := map[string]string{start: ""}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, next := range t.deps[queue[0]] {
			if _, seen := from[next]; seen {
				continue
			}
			from[next] = queue[0]
			if !sought(next) {
				queue = append(queue, next)
				continue
			}
			way := []string{next}
			for at := from[next]; at != ""; at = from[at] {
				way = append(way, at)
			}
			slices.Reverse(way)
			return way
		}
	}
	return nil
}
