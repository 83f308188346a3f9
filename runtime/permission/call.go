package permission

import (
	"encoding/json"
	"strings"
)

// call is a tool call with what was found out about its input. Input is decoded as the tools do
// it, by encoding/json into a struct with the same tags: of two keys the same one counts here
// and there, and letter case means as little.
type call struct {
	tool  string
	input json.RawMessage
	dir   *directory

	readScript *script
	readTarget *target
}

// parts says how many parts of the call have to be allowed; none means that it cannot be.
func (c *call) parts() int {
	if c.tool != toolBash {
		return 1
	}
	s := c.script()
	if s.unclear {
		return 0
	}
	return len(s.commands)
}

func (c *call) script() *script {
	if c.readScript == nil {
		var in struct {
			Command string `json:"command"`
		}
		if json.Unmarshal(c.input, &in) != nil {
			c.readScript = &script{unclear: true}
		} else {
			c.readScript = readScript(in.Command)
		}
	}
	return c.readScript
}

// target is the file of a file tool, or where a search begins.
func (c *call) target() *target {
	if c.readTarget == nil {
		var t target
		switch c.tool {
		case toolGrep, toolGlob:
			var in struct {
				Path string `json:"path"`
			}
			if json.Unmarshal(c.input, &in) == nil { // what it cannot read, the tool cannot either
				t = c.dir.target(in.Path)
			}
		default:
			var in struct {
				FilePath string `json:"file_path"`
			}
			if t.unclear = json.Unmarshal(c.input, &in) != nil; !t.unclear {
				t = c.dir.target(in.FilePath)
			}
		}
		c.readTarget = &t
	}
	return c.readTarget
}

// title is a pattern over the name of a skill or a subagent.
type title string

func (t title) allows(c *call, _ int) bool {
	name, ok := c.title()
	return ok && name != "" && matches(string(t), name)
}

func (t title) denies(c *call) bool {
	name, ok := c.title()
	return !ok || matches(string(t), strings.TrimSpace(name))
}

func (c *call) title() (string, bool) {
	if c.tool == toolSkill {
		var in struct {
			Skill string `json:"skill"`
		}
		err := json.Unmarshal(c.input, &in)
		return in.Skill, err == nil
	}
	var in struct {
		SubagentType string `json:"subagent_type"`
	}
	err := json.Unmarshal(c.input, &in)
	return in.SubagentType, err == nil
}
