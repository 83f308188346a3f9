package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/builtintool"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// warnTools prints the rules of an agent whose tools do not exist, with the name that was meant.
// Those of custom tools and MCP servers are known to the runtime.
func (d *dev) warnTools(a *agent.Agent) {
	for _, rule := range slices.Concat(a.AllowedTools, a.DisallowedTools) {
		name, _, _ := strings.Cut(rule, "(")
		known := func(tool builtintool.Tool) bool { return tool.Name == name }
		if strings.HasPrefix(name, "mcp__") || slices.ContainsFunc(builtintool.All(), known) {
			continue
		}

		best := ""
		for _, tool := range builtintool.All() {
			if far := distance(strings.ToLower(name), strings.ToLower(tool.Name)); far <= 2 && (best == "" || far < distance(strings.ToLower(name), strings.ToLower(best))) {
				best = tool.Name
			}
		}

		if best != "" {
			fmt.Fprintf(d.stderr, "agenthost dev: the agent %s has no tool %q: did you mean %s?\n", a.ID, name, best)
		} else if len(a.CustomTools) == 0 {
			fmt.Fprintf(d.stderr, "agenthost dev: the agent %s has no tool %q\n", a.ID, name)
		}
	}
}

// distance returns the number of letters that are added, removed or replaced between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}

			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}

	return row[len(b)]
}
