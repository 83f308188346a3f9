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

// systemPrompt is the prompt of the agent's definition, from wherever it is.
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

// join puts the parts of a system prompt together that there are.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n\n")
}

// skillList tells the model which skills there are, in an order that stays the same.
func skillList(skills []skill.Skill) string {
	if len(skills) == 0 {
		return ""
	}
	var block strings.Builder
	block.WriteString("Skills hold instructions for certain work. Where one of these fits what you are asked, load it with the tool Skill before you begin.\n<skills>\n")
	for _, s := range skills {
		fmt.Fprintf(&block, "- %s: %s\n", s.Name, oneLine(s.Description))
	}
	block.WriteString("</skills>")
	return block.String()
}

// datasets lists the agent's data sets for the model, in an order that stays the same.
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

// oneLine keeps a description from looking like a second one.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
