package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/skill"
	"github.com/seed93082962/agenthost/runtime/tool"
)

type skillInput struct {
	Skill string `json:"skill"`
	Args  string `json:"args"`
}

// placeholder is replaced by the arguments of a call.
const placeholder = "$ARGUMENTS"

func newSkill(c *Config) tool.Tool {
	byName := make(map[string]skill.Skill, len(c.Skills))
	names := make([]string, len(c.Skills))
	for i, s := range c.Skills {
		byName[s.Name], names[i] = s, s.Name
	}
	return tool.Typed(tool.Spec{
		Name: "Skill",
		Description: `Returns the instructions of a skill. If a listed skill fits the task, call this tool first, then follow the instructions.
Files in the instructions are relative to the base directory in the first line. Use absolute paths to read them with Read.`,
		InputSchema: inputSchema(`"skill"`, `
    "skill": {"type": "string", "minLength": 1, "description": "The skill's name"},
    "args": {"type": "string", "description": "Arguments for the skill, if it takes any"}`),
		ReadOnly: true,
	}, func(_ context.Context, in skillInput) (tool.Result, error) {
		s, ok := byName[in.Skill]
		if !ok {
			list, _ := excerpt.Ends(strings.Join(names, ", "), c.MaxOutput)
			return tool.Result{}, fmt.Errorf("there is no skill %q: the skills are %s", in.Skill, list)
		}
		body, err := s.CheckedBody(func(path string) error {
			if c.DeniesRead(s.Location) || c.DeniesRead(path) {
				return errors.New("a rule denies reading its file")
			}
			return nil
		})
		if err != nil {
			return tool.Result{}, err
		}
		switch {
		case strings.Count(body, placeholder)*len(in.Args) > maxEdit:
			return tool.Result{}, fmt.Errorf("args are too long for the skill %q", in.Skill)
		case strings.Contains(body, placeholder):
			body = strings.ReplaceAll(body, placeholder, in.Args)
		case in.Args != "":
			body = strings.TrimRight(body, "\r\n") + "\n\nARGUMENTS: " + in.Args
		}
		return c.result("Base directory for this skill: " + display(s.Dir()) + "\n\n" + strings.TrimLeft(body, "\r\n")), nil
	})
}
