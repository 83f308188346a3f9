package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/client"
)

func auditColumns(e auditlog.Entry) []field {
	return []field{
		{"id", e.ID},
		{"time", e.CreatedAt.Local().Format(time.DateTime)},
		{"user", e.UserName},
		{"action", e.Action},
		{"target", e.TargetName},
		{"status", e.Status},
		{"address", e.RemoteIP},
	}
}

// auditFilter are the flags that select entries.
type auditFilter struct {
	client.AuditFilter
	from, to string
}

func (f *auditFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Category, "category", "", "only of this `category`: auth, user, invite, provider, agent, token or aigc")
	cmd.Flags().StringVar(&f.Action, "action", "", "only this `action`, such as agent.deploy")
	cmd.Flags().StringVar(&f.User, "user", "", "only of users whose id or name contains this `text`")
	cmd.Flags().StringVar(&f.from, "from", "", "first `time`, as 2006-01-02, 2006-01-02T15:04:05Z, or 24h for the last day")
	cmd.Flags().StringVar(&f.to, "to", "", "last `time`, in the same forms")
}

// times parses the flags of times.
func (f *auditFilter) times() error {
	var err error
	if f.From, err = parseTime(f.from); err == nil {
		f.To, err = parseTime(f.to)
	}

	return err
}

func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}

	if ago, err := time.ParseDuration(text); err == nil {
		return time.Now().Add(-ago), nil
	}

	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}

	return time.Time{}, usage("%q is not a time: use 2006-01-02, 2006-01-02T15:04:05Z, or 24h for the last day", text)
}

func (a *app) auditCommand() *cobra.Command {
	return group("audit", "Read and verify the audit log", "  agenthost audit list --from 24h\n  agenthost audit verify",
		a.auditListCommand(), a.auditExportCommand(), a.auditVerifyCommand())
}

// followInterval is the time between two requests of audit list -f.
const followInterval = time.Second

func (a *app) auditListCommand() *cobra.Command {
	var filter auditFilter
	var part part
	var follow bool
	cmd := a.command(action{
		use: "list", short: "List entries, the newest first",
		long:    "Lists entries, the newest first. With -f, it then prints entries that are added later, until Ctrl-C, as lines of JSON with -o json.",
		example: "  agenthost audit list --user ada --from 24h\n  agenthost audit list -f -o json",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			if err := filter.times(); err != nil {
				return err
			}

			if follow {
				return a.followAudit(ctx, c, filter.AuditFilter)
			}

			return printList(a, pageOf(a, part, c.Audit.List(ctx, filter.AuditFilter)), auditColumns)
		},
	})
	filter.flags(cmd)
	part.flags(cmd, "entries")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print entries that are added later")
	return cmd
}

// followAudit prints the entries that are added from now on.
func (a *app) followAudit(ctx context.Context, c *client.Client, filter client.AuditFilter) error {
	last := "0"
	for entry, err := range c.Audit.List(ctx, client.AuditFilter{}) {
		if err != nil {
			return err
		}

		last = strconv.FormatUint(entry.ID, 10)
		break
	}

	a.note("Entries after %s:", last)
	for {
		lines, err := c.Audit.Export(ctx, filter, "ndjson", last)
		if err == nil {
			last, err = a.printEntries(lines, last)
		}

		if ctx.Err() != nil {
			return nil
		}

		if err != nil {
			return err
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followInterval):
		}
	}
}

// printEntries prints the lines of an export, and returns the id of the last one.
func (a *app) printEntries(lines io.ReadCloser, last string) (string, error) {
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		var entry auditlog.Entry
		if err := json.Unmarshal(scanner.Bytes(), &entry); err != nil {
			return last, errors.Join(fmt.Errorf("read entries: %w", err), lines.Close())
		}

		last = strconv.FormatUint(entry.ID, 10)
		if a.format == "json" {
			fmt.Fprintln(a.stdout, scanner.Text())
			continue
		}

		for i, text := range a.row(auditColumns(entry)) {
			if i > 0 {
				text = "  " + text
			}

			fmt.Fprint(a.stdout, text)
		}

		fmt.Fprintln(a.stdout)
	}

	return last, errors.Join(scanner.Err(), lines.Close())
}

func (a *app) auditExportCommand() *cobra.Command {
	var filter auditFilter
	var format, after string
	cmd := a.command(action{
		use: "export", short: "Write entries, the oldest first and each with its hash",
		long:    "Writes entries as NDJSON or CSV, the oldest first and each with its hash. It fails if the export is incomplete.",
		example: "  agenthost audit export > audit.ndjson\n  agenthost audit export --format csv --from 2026-01-01 > audit.csv",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			if err := filter.times(); err != nil {
				return err
			}

			if format != "ndjson" && format != "csv" {
				return usage("--format %q is not ndjson or csv", format)
			}

			export, err := c.Audit.Export(ctx, filter.AuditFilter, format, after)
			if err != nil {
				return err
			}

			return a.write(export)
		},
	})
	filter.flags(cmd)
	cmd.Flags().StringVar(&format, "format", "ndjson", "`format`: ndjson or csv")
	cmd.Flags().StringVar(&after, "after", "", "`id` of the last entry of an earlier export")
	return cmd
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var head string
	cmd := a.command(action{
		use: "verify", short: "Verify the hash chain of the log",
		long: `Computes the hash chain of the whole log again. The exit code is 8 if an entry was changed, removed or added. Store the
head that it prints elsewhere, and pass it as --head later: a log that was computed again is found too.`,
		example: "  agenthost audit verify\n  agenthost audit verify --head 42:9f86d081884c7d65...",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			check, err := c.Audit.Verify(ctx, head)
			if err != nil {
				return err
			}

			bad := ""
			if check.FirstBadID != 0 {
				bad = strconv.FormatUint(check.FirstBadID, 10)
			}

			err = a.printOne(check,
				field{"ok", check.OK},
				field{"checked", check.Checked},
				field{"head", fmt.Sprintf("%d:%s", check.HeadID, check.HeadHash)},
				field{"reason", check.Reason},
				field{"first bad entry", bad},
			)
			if err == nil && !check.OK {
				err = fmt.Errorf("%w: the audit log is damaged: %s", errDifferent, check.Reason)
			}

			return err
		},
	})
	cmd.Flags().StringVar(&head, "head", "", "`head` of an earlier verification, as ID:HASH")
	return cmd
}
