package runtime

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/skill"
)

// systemPrompt returns the prompt of the agent's definition or of its file.
func (rt *Runtime) systemPrompt(def *agent.Agent) (string, error) {
	file := def.SystemPromptFile
	if file == "" {
		return def.SystemPrompt, nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(rt.cfg.CWD, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read system prompt: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// join joins the parts of a system prompt that are not empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
}

// skillList returns the list of skills for the model, always in the same order.
func skillList(skills []skill.Skill) string {
	if len(skills) == 0 {
		return ""
	}
	var block strings.Builder
	block.WriteString("Skills contain instructions for specific tasks. If one of them matches the request, load it with the tool Skill before you start.\n<skills>\n")
	for _, s := range skills {
		fmt.Fprintf(&block, "- %s: %s\n", s.Name, oneLine(s.Description))
	}
	block.WriteString("</skills>")
	return block.String()
}

// datasets returns the list of datasets for the model, always in the same order.
func datasets(described map[string]string) string {
	if len(described) == 0 {
		return ""
	}
	var block strings.Builder
	block.WriteString("<datasets>\n")
	for _, id := range slices.Sorted(maps.Keys(described)) {
		fmt.Fprintf(&block, "- %s: %s\n", id, oneLine(described[id]))
	}
	block.WriteString("</datasets>")
	return block.String()
}

// oneLine removes line breaks, which would look like the start of another entry.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
