package hubcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/db"
)

// maxBackup is the default bound of a backup and of a restore.
const maxBackup = 6 * time.Hour

// archives returns the commands that write and read backups.
func (s *Settings) archives(stdout, stderr io.Writer) []*cobra.Command {
	var programs string
	timeout := maxBackup
	command := func(cmd *cobra.Command, do func(ctx context.Context, file string, p db.Programs) error) *cobra.Command {
		cmd.Flags().StringVar(&programs, "postgres-bin", "", "`directory` of pg_dump and pg_restore (default PATH)")
		cmd.Flags().DurationVar(&timeout, "timeout", timeout, "time after which it is cancelled")
		cmd.Args = func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one file: hub " + cmd.Use)
			}

			return nil
		}
		cmd.RunE = func(_ *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("not complete after --timeout, which is %v", timeout))
			defer cancel()
			err := do(ctx, args[0], clientPrograms(programs))
			if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", cause, err)
			}

			return err
		}
		return cmd
	}
	return []*cobra.Command{
		command(&cobra.Command{
			Use:   "backup FILE",
			Short: "Write the database and the files of tools and skills to one file",
			Long: `Writes one state of the database and the files of tools and skills to one file, while hubs serve. - is the standard
output. A former backup is replaced when the new one is complete. The encryption key is not in the backup: store it
at another place. With PostgreSQL it runs pg_dump.`,
		}, func(ctx context.Context, file string, p db.Programs) error {
			return s.backup(ctx, file, p, stdout, stderr)
		}),
		command(&cobra.Command{
			Use:   "restore FILE",
			Short: "Create the database and the files of tools and skills from a backup",
			Long: `Checks the whole backup, and then creates the database and the files of tools and skills that the settings name. The
database must be empty or absent, and the encryption key that of the former hub. With PostgreSQL it runs pg_restore.`,
		}, func(ctx context.Context, file string, p db.Programs) error {
			return s.restore(ctx, file, p, stdout, stderr)
		}),
	}
}

// clientPrograms returns the programs in a directory, or in PATH for "". They get only the
// variables that they read, and no secret of the hub.
func clientPrograms(dir string) db.Programs {
	var p db.Programs
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if name == "PATH" || name == "HOME" || strings.HasPrefix(name, "PG") {
			p.Env = append(p.Env, variable)
		}
	}

	find := func(name string) string {
		if dir != "" {
			return filepath.Join(dir, name)
		}

		path, _ := child.LookPath(name, p.Env) // "" is an error if it is needed
		return path
	}
	p.Dump, p.Restore = find("pg_dump"), find("pg_restore")
	return p
}

func (s *Settings) backup(ctx context.Context, file string, programs db.Programs, stdout, stderr io.Writer) error {
	if err := s.requireDatabase(); err != nil {
		return err
	}

	log := daemon.NewLogger(stderr, s.Level)
	files, err := s.openBlobs(ctx, log)
	if err != nil {
		return err
	}

	h, err := s.open(ctx, nil, files, nil, log)
	if err != nil {
		return errors.Join(err, files.Close())
	}

	path, report := file, stdout
	if file == "-" {
		path, report = "", stderr
	}

	m, err := h.Backup(ctx, programs, path, stdout)
	if err := errors.Join(err, h.Close(), files.Close()); err != nil {
		return err
	}

	return describe(report, "the backup has", m)
}

func (s *Settings) restore(ctx context.Context, file string, programs db.Programs, stdout, stderr io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}

	archive, err := os.Open(file)
	if err != nil {
		return err
	}

	defer func() { _ = archive.Close() }() // it is only read
	cfg := hub.Config{DatabaseURL: s.databaseURL(), Logger: daemon.NewLogger(stderr, s.Level)}
	if cfg.EncryptionKeys, err = s.existingKeys(); err != nil {
		return err
	}

	files, err := s.openBlobs(ctx, cfg.Logger)
	if err != nil {
		return err
	}

	cfg.Artifacts = files
	m, err := hub.Restore(ctx, cfg, programs, archive)
	if err := errors.Join(err, files.Close()); err != nil {
		return err
	}

	if err := describe(stdout, "restored:", m); err != nil {
		return err
	}

	_, err = fmt.Fprintln(stdout, "start the hub; if it is on another machine, run hub adopt before")
	return err
}

// describe prints what a backup has.
func describe(w io.Writer, what string, m hub.BackupManifest) error {
	_, err := fmt.Fprintf(w, "%s a database of %s with %d bytes, and %d files; version %s, of %s; encrypted with the keys %s\n",
		what, m.Engine, m.Database.Size, len(m.Artifacts), m.Hub, m.Created.Format(time.RFC3339), strings.Join(m.Keys, ", "))
	for _, key := range m.Missing {
		fmt.Fprintf(w, "warning: the file %s does not exist: upload it again\n", key)
	}

	return err
}
