package archtest_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArchitecture(t *testing.T) {
	t.Parallel()
	tree, err := repository()
	require.NoError(t, err)

	checks := map[string]func() []string{
		"arrows":                 func() []string { return checkArrows(tree, arrows) },
		"names in rules":         func() []string { return checkNames(namesInRules(), arrows) },
		"modules":                func() []string { return checkModules(tree, modules) },
		"reach":                  func() []string { return checkReach(tree, unreachable) },
		"uses":                   func() []string { return checkUses(tree, uses, exceptions) },
		"init":                   func() []string { return checkInit(tree) },
		"packages":               func() []string { return checkPackages(tree) },
		"lengths":                func() []string { return checkLengths(tree, lengths) },
		"exported names":         func() []string { return checkBudgets(tree, budgets) },
		"every row has a reason": func() []string { return checkReasons(slices.Concat(arrows, modules, uses, exceptions)) },
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := check()
			slices.Sort(faults)
			for _, f := range slices.Compact(faults) {
				t.Error(f)
			}
		})
	}
}

// namesInRules collects the names of packages of this module from every table.
func namesInRules() string {
	var names string
	for _, r := range arrows {
		if r.object != stdlib {
			names += " " + r.object
		}
	}
	for _, r := range modules {
		names += " " + r.object
	}
	for _, r := range unreachable {
		names += " " + r.subject + " " + r.packages
	}
	for _, r := range exceptions {
		names += " " + r.subject
	}
	for _, pkg := range slices.Sorted(maps.Keys(budgets)) {
		names += " " + pkg
	}
	for _, r := range lengths {
		names += " " + r.in
	}
	return names
}

// checkReasons finds rows without a reason and repeated rows.
func checkReasons(rows []rule) (faults []string) {
	seen := map[string]bool{}
	for _, r := range rows {
		if r.reason == "" {
			faults = append(faults, "the row of "+r.subject+" has no reason")
		}
		if key := r.subject + " " + r.object; seen[key] {
			faults = append(faults, "duplicate row "+key)
		} else {
			seen[key] = true
		}
	}
	return faults
}
