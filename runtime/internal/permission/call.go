package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"path"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/internal/permission/shell"
)

// call is a tool call whose input is decoded when a rule needs it. Rules and tools decode it with
// encoding/json into structs with the same tags, so that repeated keys and keys in other letter
// case have the same meaning for both.
type call struct {
	ctx      context.Context // of one Check
	tool     string
	original string // the second name of tool, or ""
	input    json.RawMessage
	dir      *directory

	cachedScript *script // of Bash
	executed     *string // the command that bash executes instead of the one in input
	cachedTarget *target
}

// parts returns how many parts of the call must be allowed. 0 means that the call cannot be
// allowed.
func (c *call) parts() int {
	if c.tool != toolBash {
		return 1
	}

	s := c.script()
	if s.opaque != nil {
		return 0
	}

	return len(s.commands)
}

func (c *call) script() *script {
	if c.cachedScript != nil {
		return c.cachedScript
	}

	var in struct {
		Command string `json:"command"`
	}
	if jsonlimit.Unmarshal(c.input, &in) != nil {
		err := &shell.Error{Construct: "no text", Advice: "the command is a string"}
		c.cachedScript = &script{unreadable: err, opaque: err}
		return c.cachedScript
	}

	c.cachedScript = readScript(in.Command)
	if c.cachedScript.unreadable == nil {
		c.execute(c.cachedScript.commands)
	}

	return c.cachedScript
}

// execute sets the command that bash executes.
func (c *call) execute(commands shell.Script) {
	text := commands.String()
	c.executed = &text
}

// judgedInput returns the input that was judged.
func (c *call) judgedInput() json.RawMessage {
	name, value := "command", ""
	switch {
	case c.executed != nil:
		value = *c.executed
	case c.leads():
		name, value = "file_path", c.target().real
	default:
		return c.input
	}

	fields := map[string]json.RawMessage{}
	if jsonlimit.Unmarshal(c.input, &fields) != nil {
		return c.input // unreachable: the input was decoded before
	}

	for given := range fields {
		if strings.EqualFold(given, name) { // a tool of an embedder may ignore letter case
			delete(fields, given)
		}
	}

	fields[name] = encode(value)
	return encode(fields)
}

// leads reports whether the path of a change leads to another one: through a link, or because it is
// absolute. The tool follows no link, so that it changes the file that was judged.
func (c *call) leads() bool {
	if c.tool != toolWrite && c.tool != toolEdit {
		return false
	}

	t := c.target()
	return t.inReal && t.given != t.real
}

// encode returns a value as JSON without HTML escapes: a person may have to read and approve it.
func encode(value any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value) // strings and valid JSON can be encoded
	return bytes.TrimSpace(b.Bytes())
}

// hasPath reports whether the input of the tool has a path.
func (c *call) hasPath() bool {
	switch c.tool {
	case toolRead, toolWrite, toolEdit, toolGrep, toolGlob:
		return true
	}

	return false
}

// target returns the file of a file tool, or the start of a search.
func (c *call) target() *target {
	if c.cachedTarget == nil {
		var t target
		switch c.tool {
		case toolGrep, toolGlob:
			var in struct {
				Path string `json:"path"`
			}
			if jsonlimit.Unmarshal(c.input, &in) == nil { // the tool rejects other input
				t = c.dir.target(in.Path)
			}
		default:
			var in struct {
				FilePath string `json:"file_path"`
			}
			if t.unknown = jsonlimit.Unmarshal(c.input, &in) != nil; !t.unknown {
				t = c.dir.target(in.FilePath)
				t.given = path.Clean(filepath.ToSlash(in.FilePath))
			}
		}

		c.cachedTarget = &t
	}

	return c.cachedTarget
}

// namePattern is a pattern over the name of a skill or a subagent.
type namePattern string

func (p namePattern) allows(c *call, _ int) bool {
	name, ok := c.name()
	return ok && name != "" && matches(string(p), name)
}

func (p namePattern) denies(c *call) bool {
	name, ok := c.name()
	return !ok || matches(string(p), strings.TrimSpace(name))
}

// name returns the name of the skill or subagent in the input.
func (c *call) name() (string, bool) {
	if c.tool == toolSkill {
		var in struct {
			Skill string `json:"skill"`
		}
		err := jsonlimit.Unmarshal(c.input, &in)
		return in.Skill, err == nil
	}

	var in struct {
		SubagentType string `json:"subagent_type"`
	}
	err := jsonlimit.Unmarshal(c.input, &in)
	return in.SubagentType, err == nil
}
