package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/runtime/skill"
	"github.com/seed93082962/agenthost/runtime/tool"
)

type skillInput struct {
	Skill string `json:"skill"`
	Args  string `json:"args"`
}

// placeholder is where a skill's author wants the arguments.
const placeholder = "$ARGUMENTS"

func newSkill(c *Config) tool.Tool {
	known := make(map[string]skill.Skill, len(c.Skills))
	names := make([]string, len(c.Skills))
	for i, s := range c.Skills {
		known[s.Name], names[i] = s, s.Name
	}
	return typed(tool.Spec{
		Name: "Skill",
		Description: `Reads the instructions of a skill. Call it before anything else when a skill that you know of fits the work, then do as the instructions say.
Files that they name are relative to the base directory in the first line: read them with Read by their absolute path.`,
		InputSchema: json.RawMessage(skillSchema),
		ReadOnly:    true,
	}, func(_ context.Context, in skillInput) (tool.Result, error) {
		s, ok := known[in.Skill]
		if !ok {
			list, _ := clip(strings.Join(names, ", "), c.MaxOutput)
			return tool.Result{}, fmt.Errorf("there is no skill %q. The skills are: %s", in.Skill, list)
		}
		body, err := s.Body()
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
		return c.result("Base directory for this skill: " + shown(s.Dir()) + "\n\n" + strings.TrimLeft(body, "\r\n")), nil
	})
}

const skillSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "skill": {"type": "string", "minLength": 1, "description": "The skill's name"},
    "args": {"type": "string", "description": "What the skill is to be used on, if anything"}
  },
  "required": ["skill"],
  "additionalProperties": false
}`
