package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/runtime/tool"
)

const (
	// maxBashTime is the most that a call may ask for.
	maxBashTime = 10 * time.Minute

	// A call that is over is gone within a second: it is asked to end, it is killed, and what a runaway that has the
	// output would yet write is not waited for.
	bashGrace     = 200 * time.Millisecond
	bashWaitDelay = 500 * time.Millisecond

	maxCommand = 100_000 // bytes; Linux takes 128 KiB in one argument

	// bashNotes is what is kept free of the output's bound for the lines about how a command ended.
	bashNotes = 200
)

type bashInput struct {
	Command     string   `json:"command"`
	Timeout     *float64 `json:"timeout"` // ms
	Description string   `json:"description"`
}

// limit is the time that the call asks for, or otherwise.
func (in *bashInput) limit(otherwise time.Duration) (time.Duration, error) {
	switch {
	case in.Timeout == nil:
		return otherwise, nil
	case *in.Timeout < 1:
		return otherwise, fmt.Errorf("the timeout is %v: give milliseconds, from 1 to %d", *in.Timeout, maxBashTime.Milliseconds())
	case *in.Timeout >= float64(maxBashTime.Milliseconds()):
		return maxBashTime, nil
	}
	return time.Duration(*in.Timeout * float64(time.Millisecond)), nil
}

type bash struct {
	tool.Tool
}

var _ tool.Timed = bash{}

func newBash(cfg *Config) tool.Tool {
	return bash{typed(tool.Spec{
		Name: "Bash",
		Description: `Runs a command with bash in the working directory and answers what it writes to stdout and stderr, in the order in which it comes.
Each call is a new shell: a cd, variables and functions do not last until the next call. Stdin is empty and there is no terminal, so use the options that keep a program from asking or from opening a pager or an editor.
A process that is started in the background ends with the command: what has to run on belongs to someone else.
Of long output the beginning and the end are shown. A command that fails is answered with "Exit code N" in the last line.
Prefer Read, Write, Edit, Glob and Grep for what they do.`,
		InputSchema: json.RawMessage(bashSchema),
	}, cfg.bash)}
}

const bashSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "command": {"type": "string", "description": "The command, as after bash -c"},
    "timeout": {"type": "integer", "minimum": 1, "maximum": 600000, "description": "Milliseconds after which the command is ended, where the usual limit does not suit"},
    "description": {"type": "string", "description": "What the command does, in five to ten words"}
  },
  "required": ["command"],
  "additionalProperties": false
}`

// Timeout answers the time that the input asks for.
func (bash) Timeout(input json.RawMessage, limit time.Duration) time.Duration {
	var in bashInput
	if err := json.Unmarshal(input, &in); err != nil {
		return limit // the call will say what is wrong
	}
	limit, _ = in.limit(limit)
	return limit
}

func (c *Config) bash(ctx context.Context, in bashInput) (tool.Result, error) {
	if strings.TrimSpace(in.Command) == "" {
		return tool.Result{}, errors.New("the command is empty")
	}
	if len(in.Command) > maxCommand {
		return tool.Result{}, fmt.Errorf("the command has %d bytes, and %d is the most: write it to a file and run that", len(in.Command), maxCommand)
	}
	if strings.ContainsRune(in.Command, 0) {
		return tool.Result{}, errors.New("the command has a null byte in it, which no command can have")
	}
	if _, err := in.limit(0); err != nil {
		return tool.Result{}, err
	}
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	output := headTail{room: c.MaxOutput - bashNotes}
	cmd := &exec.Cmd{
		Path: c.BashPath, Args: []string{"bash", "-c", in.Command}, Dir: c.Dir.Path(),
		Env:    append([]string{}, c.Env...), // not nil
		Stdout: &output, Stderr: &output,     // one writer, so one pipe: the order is that of the writes
		WaitDelay: bashWaitDelay,
	}
	p, err := child.Start(cmd)
	if err != nil {
		return tool.Result{}, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(bashGrace)
		text, cut := output.text()
		text = strings.TrimSuffix(text, "\n") // on the next line the model is told why
		return tool.Result{Output: text, Truncated: cut}, fmt.Errorf("the command was ended: %w", context.Cause(ctx))
	}
	text, cut := output.text()
	res := tool.Result{Output: text, Truncated: cut}
	if exit, ok := errors.AsType[*exec.ExitError](p.Err()); ok {
		res.IsError = true
		how := fmt.Sprintf("Exit code %d", exit.ExitCode())
		if signal := child.SignalName(exit); signal != "" {
			how = "Killed by signal " + signal
		}
		res.Output = strings.TrimLeft(strings.TrimSuffix(text, "\n")+"\n"+how, "\n")
	} else if err := p.Err(); err != nil && !errors.Is(err, exec.ErrWaitDelay) { // which a runaway has to answer for
		return res, fmt.Errorf("run the command: %w", err)
	}
	res.Output = cmp.Or(res.Output, "(no output)")
	return res, nil
}
