package runtimecmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// check prints the status of every agent and the errors of skills. An unavailable agent is not an
// error: it does not prevent the others from being served.
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
	return nil
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
