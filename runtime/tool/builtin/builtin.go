package builtin

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/skill"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Config of the tools.
type Config struct {
	// Dir is the working directory, which no file tool leaves. Required. The caller closes it.
	Dir *filesafe.Dir

	// Skills are the skills that the tool Skill returns. Read may also open the files below the
	// directories of the user's skills, as they were when the tools were made. The skills of a
	// project are in Dir.
	Skills []skill.Skill

	// Hides reports whether Read is denied a file. Grep and Glob omit such a file, and Edit rejects
	// it. The path is relative to Dir, with "/". It is called concurrently. Defaults to a function
	// that returns false.
	Hides func(path string) bool

	// DeniesRead reports whether a rule denies reading a file. Skill does not return such a file.
	// The path is absolute. It is called concurrently. Defaults to a function that returns false.
	DeniesRead func(path string) bool

	// MaxOutput bounds the bytes of a tool's output. Defaults to 100,000.
	MaxOutput int

	// Env is the environment of child processes as "NAME=value". Defaults to an empty one.
	Env []string

	// Sandbox confines the commands of Bash. Defaults to none. The caller closes it.
	Sandbox tool.Sandbox

	// BashPath is the bash that runs commands. Defaults to "/bin/bash".
	BashPath string

	// Client sends the requests of WebFetch. Defaults to a client that rejects private addresses
	// and uses no proxy.
	Client *http.Client
}

// Tools returns all built-in tools except Task, which the engine implements. Skill is included if
// there are skills.
func Tools(c Config) ([]tool.Tool, error) {
	if c.Dir == nil {
		return nil, errors.New("make built-in tools: no working directory")
	}
	c.MaxOutput = cmp.Or(c.MaxOutput, 100_000)
	c.BashPath = cmp.Or(c.BashPath, "/bin/bash")
	if c.Hides == nil {
		c.Hides = func(string) bool { return false }
	}
	if c.DeniesRead == nil {
		c.DeniesRead = func(string) bool { return false }
	}
	tools := []tool.Tool{
		newRead(&c), newWrite(&c), newEdit(&c), newGlob(&c), newGrep(&c), newBash(&c), newWebFetch(&c), newTodoWrite(&c),
	}
	if len(c.Skills) > 0 {
		tools = append(tools, newSkill(&c))
	}
	return tools, nil
}

// typed is [tool.Func] for a function that returns a Result.
func typed[In any](spec tool.Spec, fn func(ctx context.Context, in In) (tool.Result, error)) tool.Tool {
	return tool.New(spec, func(ctx context.Context, call tool.Call) (tool.Result, error) {
		var res tool.Result
		_, err := tool.Func(spec, func(ctx context.Context, in In) (_ string, err error) {
			res, err = fn(ctx, in)
			return "", err
		}).Call(ctx, call)
		return res, err
	})
}
