// Package runtimecmd is the command that serves agents. It is the program runtime, and a subcommand
// of hub, which starts it for each deployment.
package runtimecmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/host"
)

// IsChild reports whether a hub has started this process as the runtime of a deployment, or a
// runtime as a worker for custom tools.
func IsChild() bool { return host.IsChild(os.Args) }

// RunChild does the work of a child, and returns when it has ended.
func RunChild(drivers Drivers) error {
	s := &settings{getenv: os.Getenv, drivers: drivers}
	s.read(nil)
	process := host.Process{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv, Signals: daemon.Notify(),
		Proxy: http.ProxyFromEnvironment, Version: daemon.Version(), Logger: daemon.NewLogger(os.Stderr, s.Level),
	}
	if os.Args[1] == agentvalue.DeployedArg {
		s.readBus(&agent.File{})
		s.drivers.Check(&s.Settings, new(string), s.Origins)
		if err := s.Err(); err != nil {
			return err
		}

		bus, err := s.openBus(context.Background(), process.Logger)
		if err != nil {
			return err
		}

		if bus != nil {
			defer bus.Close()
		}

		observed, err := drivers.Start(context.Background(), telemetry.Config{
			Service: service, Version: daemon.Version(), Settings: s.Settings, Logger: process.Logger,
		})
		if err != nil {
			return err
		}
		defer observed.Shutdown(context.Background())
		process.Hidden = s.Secrets
		process.Configure = func(c *runtime.Config) {
			if bus != nil {
				c.Bus = bus
			}

			observe(c, observed, &s.Settings)
			serveProtocols(c, process.Logger)
		}
	}

	return host.Run(context.Background(), process)
}

// Command returns the command. It serves until the context of its execution ends.
func Command(drivers Drivers, getenv func(string) string, stdout, stderr io.Writer) *cobra.Command {
	s := &settings{getenv: getenv, drivers: drivers}
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
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { s.read(cmd.Flags()) },
		RunE:             func(cmd *cobra.Command, _ []string) error { return s.start(cmd.Context(), stdout, stderr) },
	}
	daemon.AddFlags(cmd.Flags(), s)
	cmd.Flags().BoolVar(&s.checkOnly, "check", false, "print every error in the configuration, or the status of agents and skills, and exit")
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetHelpTemplate(strings.Replace(help, "{{settings}}", daemon.Help(s), 1))
	cmd.SetVersionTemplate("agenthost runtime {{.Version}}\n")
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd
}

// start reads the configuration and then checks or serves it.
func (s *settings) start(ctx context.Context, stdout, stderr io.Writer) error {
	file, err := s.readFile()
	if err != nil {
		return err
	}

	if s.checkOnly {
		return s.check(ctx, file, stdout)
	}

	return s.serve(ctx, file, daemon.NewLogger(stderr, s.Level), stdout)
}

// check prints the status of every agent and the errors of skills. It fails if an agent is
// unavailable, a list names an unknown tool, or the command of an MCP server is missing.
func (s *settings) check(ctx context.Context, file *agent.File, stdout io.Writer) error {
	var (
		skills skillFaults
		found  examined
	)
	rt, err := s.newHost(ctx, file, served{}, &found, slog.New(&skills))
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

	return found.report(file, unavailable, stdout)
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
