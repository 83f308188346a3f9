package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/hub"
)

// with opens a hub that serves nobody, beside those that may be running on the same database.
func (s *settings) with(ctx context.Context, stderr io.Writer, do func(*hub.Hub) error) error {
	if path := s.databaseFile(); path != "" {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("there is no hub here: %w; HUB_DATA_DIR or DATABASE_URL say where it is", err)
		}
	}
	h, err := s.open(ctx, nil, daemon.NewLogger(stderr))
	if err != nil {
		return err
	}
	return errors.Join(do(h), h.Close())
}

func (s *settings) resetPassword(stdout, stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "reset-password USER",
		Short: "Give a user a new password, which is printed alone",
		Long:  "Gives a user a new password and prints it alone. The user's sessions end and CLI tokens are revoked.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one user: hub reset-password USER")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd.Context(), stderr, func(h *hub.Hub) error {
				password, err := h.ResetPassword(cmd.Context(), args[0])
				if err == nil {
					_, err = fmt.Fprintln(stdout, password)
				}
				return err
			})
		},
	}
}

func (s *settings) rekey(stdout, stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "rekey",
		Short: "Seal everything with the first key of PROVIDER_ENCRYPTION_KEY",
		Long:  "Seals everything in the database with the first key of PROVIDER_ENCRYPTION_KEY, after which the others can be dropped.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), stderr, func(h *hub.Hub) error {
				n, err := h.Rekey(cmd.Context())
				if err == nil {
					_, err = fmt.Fprintf(stdout, "%d secrets were sealed anew\n", n)
				}
				return err
			})
		},
	}
}

func (s *settings) audit(stdout, stderr io.Writer) *cobra.Command {
	tenant := "default"
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Write the audit log as NDJSON, oldest first",
		Long:  "Writes the audit log of a tenant as NDJSON, oldest first. The tenant system has what belongs to no organization.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), stderr, func(h *hub.Hub) error {
				return h.WriteAudit(cmd.Context(), stdout, tenant)
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", tenant, "whose log")
	return cmd
}
