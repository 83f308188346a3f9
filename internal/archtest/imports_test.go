package archtest_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// matches reports whether pattern is pkg, "a/..." above it, or "*suffix" of its last element.
func matches(pattern, pkg string) bool {
	if pattern == "..." || pattern == pkg {
		return true
	}
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(path.Base(pkg), suffix)
	}
	above, ok := strings.CutSuffix(pattern, "/...")
	return ok && (pkg == above || strings.HasPrefix(pkg, above+"/"))
}

func matchesAny(patterns, pkg string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool { return matches(p, pkg) })
}

// findRow returns the most specific row for a package.
func findRow(rows []rule, pkg string) (row rule, found bool) {
	for _, r := range rows {
		if r.subject == pkg {
			return r, true
		}
		if matches(r.subject, pkg) && len(r.subject) > len(row.subject) {
			row, found = r, true
		}
	}
	return row, found
}

// fromStdlib reports whether the first element of an import path has no dot, which is reserved for
// the standard library.
func fromStdlib(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// isLeafInternal reports whether a package is internal and needs only the standard library.
func isLeafInternal(rows []rule, pkg string) bool {
	row, ok := findRow(rows, pkg)
	return ok && row.object == stdlib && matches("internal/...", pkg)
}

func isTestSupport(pkg string) bool { return matches("*test", pkg) }

// checkArrows checks the direct imports between packages of this module.
func checkArrows(t *tree, rows []rule) (faults []string) {
	for _, f := range t.files {
		row, ok := findRow(rows, f.pkg)
		if !ok {
			faults = append(faults, fmt.Sprintf("%s: package %s has no row in arrows: add one with a reason", f.path, f.pkg))
			continue
		}
		if f.test() {
			continue
		}
		for _, importPath := range f.imports() {
			target, ours := relative(importPath)
			switch {
			case row.object == stdlib && ours && isLeafInternal(rows, target):
			case row.object == stdlib && (ours || !fromStdlib(importPath)):
				faults = append(faults, fmt.Sprintf("%s: imports %s, and may import only the standard library: %s", f.path, target, row.reason))
			case !ours:
			case isTestSupport(target) && !isTestSupport(f.pkg):
				faults = append(faults, fmt.Sprintf("%s: imports %s, which is for tests", f.path, target))
			case !matchesAny(row.object, target):
				faults = append(faults, fmt.Sprintf("%s: must not import %s: %s", f.path, target, row.reason))
			}
		}
	}
	return faults
}

// checkNames finds package names in rules that no row of arrows matches, such as misspelt ones.
func checkNames(names string, rows []rule) (faults []string) {
	for name := range strings.FieldsSeq(names) {
		known := func(r rule) bool {
			return matches(r.subject, name) || matches(name, strings.TrimSuffix(r.subject, "/..."))
		}
		if name[0] != '*' && !slices.ContainsFunc(rows, known) {
			faults = append(faults, name+" is named in a rule and has no row in arrows")
		}
	}
	return faults
}

// checkModules checks the direct imports of third-party packages, and of the few standard ones that
// have a row.
func checkModules(t *tree, rows []rule) (faults []string) {
	for _, f := range t.files {
		for _, target := range f.imports() {
			if _, ours := relative(target); ours {
				continue
			}
			i := slices.IndexFunc(rows, func(r rule) bool { return matchesAny(r.subject, target) })
			switch {
			case i < 0 && (target == "C" || !fromStdlib(target)):
				faults = append(faults, fmt.Sprintf("%s: imports %s, which has no row in modules: add one with a reason", f.path, target))
			case i >= 0 && !f.test() && !matchesAny(rows[i].object, f.pkg):
				faults = append(faults, fmt.Sprintf("%s: must not import %s: %s", f.path, target, rows[i].reason))
			}
		}
	}
	return faults
}

// checkReach follows imports through all packages, and returns the chain to a forbidden one.
func checkReach(t *tree, rows []reach) (faults []string) {
	for importPath := range t.deps {
		pkg, ours := relative(importPath)
		if !ours {
			continue
		}
		for _, r := range rows {
			if !matches(r.subject, pkg) {
				continue
			}
			chain := t.importChain(importPath, func(target string) bool {
				name, ours := relative(target)
				return ours && matchesAny(r.packages, name) || !ours && matchesAny(r.modules, target)
			})
			if chain != nil {
				faults = append(faults, fmt.Sprintf("%s depends on a forbidden package: %s: %s", pkg, strings.Join(chain, " -> "), r.reason))
			}
		}
	}
	return faults
}

// importChain returns a shortest chain of imports from a package to a forbidden one, or nil.
func (t *tree) importChain(start string, forbidden func(string) bool) []string {
	from := map[string]string{start: ""}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, next := range t.deps[queue[0]] {
			if _, seen := from[next]; seen {
				continue
			}
			from[next] = queue[0]
			if !forbidden(next) {
				queue = append(queue, next)
				continue
			}
			chain := []string{next}
			for at := from[next]; at != ""; at = from[at] {
				chain = append(chain, at)
			}
			slices.Reverse(chain)
			return chain
		}
	}
	return nil
}
