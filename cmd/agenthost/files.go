package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func (a *app) filesCommand() *cobra.Command {
	return group("files", "Read the working directory of a deployed agent",
		"  agenthost files ls helper:reports\n  agenthost files cp helper:reports/may.csv .",
		a.command(action{
			use: "ls AGENT[:PATH]", short: "List a directory", example: "  agenthost files ls helper\n  agenthost files ls helper:reports",
			args: []string{"AGENT[:PATH]"}, complete: agentNames,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				agent, name, _ := strings.Cut(args[0], ":")
				entries, err := c.Deployments.Files(ctx, agent, name)
				if err != nil {
					return err
				}

				return printList(a, seq(entries), func(e client.FileEntry) []field {
					return []field{
						{"name", e.Name},
						{"type", e.Type},
						{"size", e.Size},
						{"changed", e.Mtime},
					}
				})
			},
		}),
		a.command(action{
			use: "cat AGENT:PATH", short: "Print a file", example: "  agenthost files cat helper:notes.md", args: []string{"AGENT:PATH"}, complete: agentNames,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				agent, name, err := agentPath(args[0])
				if err != nil {
					return err
				}

				file, err := c.Deployments.Open(ctx, agent, name, 0)
				if err != nil {
					return err
				}

				return a.write(file)
			},
		}),
		a.copyCommand(),
	)
}

// agentPath splits AGENT:PATH into the name of the agent and the path.
func agentPath(text string) (string, string, error) {
	agent, name, ok := strings.Cut(text, ":")
	if !ok || agent == "" || name == "" {
		return "", "", usage("%q is not of the form AGENT:PATH", text)
	}

	return agent, name, nil
}

func (a *app) copyCommand() *cobra.Command {
	var resume bool
	cmd := a.command(action{
		use: "cp AGENT:PATH FILE", short: "Copy a file to this machine",
		long:    "Copies a file to this machine. With --resume, it continues a copy that was interrupted: the existing FILE is the beginning.",
		example: "  agenthost files cp helper:data.csv .\n  agenthost files cp helper:data.csv data.csv --resume",
		args:    []string{"AGENT:PATH", "FILE"}, complete: agentNames,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			agent, name, err := agentPath(args[0])
			if err != nil {
				return err
			}

			target := args[1]
			if info, err := os.Stat(target); err == nil && info.IsDir() {
				target += "/" + path.Base(name)
			}

			return a.copy(ctx, c, agent, name, target, resume)
		},
	})
	cmd.Flags().BoolVar(&resume, "resume", false, "continue a copy that was interrupted")
	return cmd
}

// copy copies a file, or the rest of it.
func (a *app) copy(ctx context.Context, c *client.Client, agent, name, target string, resume bool) (err error) {
	offset := int64(0)
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if resume {
		flags = os.O_WRONLY | os.O_CREATE
		if info, err := os.Stat(target); err == nil {
			offset = info.Size()
		}
	}

	source, err := c.Deployments.Open(ctx, agent, name, offset)
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Status == http.StatusRequestedRangeNotSatisfiable {
		return a.result("%s is complete.", target)
	}

	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, source.Close()) }()
	file, err := os.OpenFile(target, flags, 0o666)
	if errors.Is(err, os.ErrExist) {
		return usage("%s exists: remove it, or continue it with --resume", target)
	}

	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(source.Offset); err != nil {
		return err
	}

	if _, err := file.Seek(source.Offset, io.SeekStart); err != nil {
		return err
	}

	n, err := io.Copy(file, &progress{Reader: source, app: a, name: target, done: source.Offset, size: source.Size})
	if err != nil {
		return fmt.Errorf("copy %s: %w; continue with --resume", name, err)
	}

	return a.result("%s: %d bytes.", target, source.Offset+n)
}
