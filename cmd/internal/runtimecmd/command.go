// Package runtimecmd is the command that serves agents. It is the program runtime, and a subcommand
// of hub, which starts it for each deployment.
package runtimecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
)

// IsWorker reports whether the arguments of the process are those of a worker for custom tools: a
// runtime starts its own executable for that.
func IsWorker(args []string) bool { return len(args) == 2 && args[1] == js.WorkerArg }

// Work runs this process as a worker for custom tools.
func Work() error {
	if err := worker.Run(os.Stdin, os.Stdout); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return nil
}

// Command returns the command. It serves until the context of its execution ends.
func Command(getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) (*cobra.Command, error) {
	s, err := readEnvironment(getenv)
	if err != nil {
		return nil, err
	}
	cmd := &cobra.Command{
		Use:           "runtime",
		Short:         "Serve agents, as the hub does for each deployment",
		Version:       daemon.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown argument %q; %s --help lists the flags", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.WaitStdin {
				if err := awaitLine(stdin); err != nil {
					return err
				}
			}
			return start(cmd.Context(), s, getenv, stdout, stderr)
		},
	}
	s.flags(cmd.Flags())
	for _, name := range []string{"wait-stdin", "listen-fd", "require-ready"} {
		if err := cmd.Flags().MarkHidden(name); err != nil { // for deployers
			return nil, err
		}
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetHelpTemplate(help)
	cmd.SetVersionTemplate("agenthost runtime {{.Version}}\n")
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd, nil
}

// awaitLine waits for a line on standard input. A deployer that ends before it has recorded the
// process sends none, and the process ends too.
func awaitLine(stdin io.Reader) error {
	var b [1]byte
	for {
		n, err := stdin.Read(b[:])
		switch {
		case n == 1 && b[0] == '\n':
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("standard input ended before it had a line")
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// start reads the configuration and then checks or serves it.
func start(ctx context.Context, s *settings, getenv func(string) string, stdout, stderr io.Writer) error {
	file, err := s.readFile(getenv)
	if err != nil {
		return err
	}
	if s.Check {
		return s.check(ctx, file, stdout)
	}
	return s.serve(ctx, file, daemon.NewLogger(stderr, s.Level), stdout)
}

// errUnavailable returns the reasons of unavailable agents as one error, or nil.
func errUnavailable(file *agent.File, reasons map[string]error) error {
	var errs []error
	for i := range file.Agents {
		if id := file.Agents[i].ID; reasons[id] != nil {
			errs = append(errs, fmt.Errorf("agent %s is unavailable: %w", id, reasons[id]))
		}
	}
	return errors.Join(errs...)
}

// check prints the status of every agent and the errors of skills. It fails if an agent is
// unavailable, a list names an unknown tool, or the command of an MCP server is missing.
func (s *settings) check(ctx context.Context, file *agent.File, stdout io.Writer) error {
	var skills skillFaults
	rt, err := s.newHost(ctx, file, nil, nil, slog.New(&skills))
	if err != nil {
		return err
	}
	defer func() { _ = rt.Close() }() // there are no runs to wait for
	if len(file.Agents) == 0 {
		fmt.Fprintln(stdout, "no agents are configured")
	}
	unavailable := rt.Unavailable()
	for i := range file.Agents {
		id, status := file.Agents[i].ID, "ready"
		if err := unavailable[id]; err != nil {
			status = "unavailable: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Fprintf(stdout, "%s: %s\n", id, status)
	}
	for _, line := range skills {
		fmt.Fprintln(stdout, line)
	}
	return rt.examined.report(file, unavailable, stdout)
}

// skillFaults is a log handler that collects the warnings about skills, one line per file: the
// warnings that have a path.
type skillFaults []string

func (*skillFaults) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }
func (f *skillFaults) WithAttrs([]slog.Attr) slog.Handler             { return f }
func (f *skillFaults) WithGroup(string) slog.Handler                  { return f }

func (f *skillFaults) Handle(_ context.Context, r slog.Record) error {
	said := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		said[a.Key] = a.Value.String()
		return true
	})
	if said["path"] == "" {
		return nil
	}
	parts := slices.DeleteFunc([]string{said["path"], r.Message, said["err"], said["hint"]}, func(s string) bool { return s == "" })
	line := strings.ReplaceAll(strings.Join(parts, ": "), "\n", "; ")
	if !slices.Contains(*f, line) { // directories of two agents may overlap
		*f = append(*f, line)
	}
	return nil
}
