package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/runtime/tool"
)

type skillInput struct {
	Skill string `json:"skill"`
	Args  string `json:"args"`
}

// Placeholders in the body of a skill.
const (
	argsPlaceholder = "$ARGUMENTS"          // the arguments of a call
	dirPlaceholder  = "${CLAUDE_SKILL_DIR}" // the directory of the skill
)

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

		dir := display(s.Dir())
		grown := strings.Count(body, argsPlaceholder)*len(in.Args) + strings.Count(body, dirPlaceholder)*len(dir)
		if grown > maxEdit {
			return tool.Result{}, fmt.Errorf("the skill %q is too large with these args", in.Skill)
		}

		if in.Args != "" && !strings.Contains(body, argsPlaceholder) {
			body = strings.TrimRight(body, "\r\n") + "\n\nARGUMENTS: " + argsPlaceholder
		}

		body = strings.NewReplacer(argsPlaceholder, in.Args, dirPlaceholder, dir).Replace(body)
		return c.result("Base directory for this skill: " + dir + "\n\n" + strings.TrimLeft(body, "\r\n")), nil
	})
}
