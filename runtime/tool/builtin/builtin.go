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

// Config says what the tools work on.
type Config struct {
	// Dir is the working directory, which no file tool leaves. Required. It stays the caller's to close.
	Dir *filesafe.Dir

	// Skills are what the Skill tool knows. Read reads the files below the directories of a user's skills as well,
	// as those were when the tools were made; a project's are in Dir.
	Skills []skill.Skill

	// Hides tells of a path, relative to Dir and with "/", that Read is denied it: Grep and Glob leave it out then,
	// and Edit shows nothing of it. It is called from several goroutines. Defaults to nothing hidden.
	Hides func(path string) bool

	// MaxOutput bounds the bytes of a tool's output. Defaults to 100,000.
	MaxOutput int

	// Env is the environment of child processes as "NAME=value". Defaults to an empty one.
	Env []string

	// BashPath is the bash that runs commands. Defaults to "/bin/bash".
	BashPath string

	// Client is what WebFetch calls with. Defaults to one that refuses private addresses and uses no proxy.
	Client *http.Client
}

// Tools are all built-in tools but Task, which belongs to the run. Skill is among them if there are skills.
func Tools(c Config) ([]tool.Tool, error) {
	if c.Dir == nil {
		return nil, errors.New("make built-in tools: no working directory")
	}
	c.MaxOutput = cmp.Or(c.MaxOutput, 100_000)
	c.BashPath = cmp.Or(c.BashPath, "/bin/bash")
	if c.Hides == nil {
		c.Hides = func(string) bool { return false }
	}
	tools := []tool.Tool{
		newRead(&c), newWrite(&c), newEdit(&c), newGlob(&c), newGrep(&c), newBash(&c), newWebFetch(&c), newTodoWrite(&c),
	}
	if len(c.Skills) > 0 {
		tools = append(tools, newSkill(&c))
	}
	return tools, nil
}

// typed is [tool.Func] for a function that answers a whole Result.
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
