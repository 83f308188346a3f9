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

// with calls do with an offline hub. Other hubs may serve the same database at the same time.
func (s *settings) with(ctx context.Context, stderr io.Writer, do func(*hub.Hub) error) error {
	if path := s.databaseFile(); path != "" {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("no database exists: %w; set HUB_DATA_DIR or DATABASE_URL", err)
		}
	}
	h, err := s.open(ctx, nil, nil, daemon.NewLogger(stderr))
	if err != nil {
		return err
	}
	return errors.Join(s.explainKey(do(h)), h.Close())
}

func (s *settings) resetPassword(stdout, stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "reset-password USER",
		Short: "Print a new password for a user",
		Long: `Sets a new password for a user, which must be changed, and prints only the password. Ends the user's sessions and
revokes the CLI tokens and the open invitations that the user created.`,
		Args: userArgument("reset-password"),
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

// userArgument accepts one argument.
func userArgument(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return errors.New("name one user: hub " + command + " USER")
		}
		return nil
	}
}

const namesOfUsers = "USER is ORGANIZATION/USERNAME, ORGANIZATION/sub:SUBJECT, or only USERNAME for the organization default."

func (s *settings) adminToken(stdout, stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "admin-token USER",
		Short: "Print a token of an admin that is valid for an hour",
		Long: `Prints a token of an active admin that is valid for an hour, for the time in which the identity provider is
unavailable. The token is recorded and is one of the admin's CLI tokens. ` + namesOfUsers,
		Args: userArgument("admin-token"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd.Context(), stderr, func(h *hub.Hub) error {
				token, err := h.AdminToken(cmd.Context(), args[0])
				if err == nil {
					_, err = fmt.Fprintln(stdout, token)
				}
				return err
			})
		},
	}
}

func (s *settings) restoreAdmin(stdout, stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "restore-admin USER",
		Short: "Make a user an admin, after the identity provider was replaced",
		Long: `Makes a user who has signed in once an active admin. After the issuer of an organization was changed, its
users are new ones, and members. ` + namesOfUsers,
		Args: userArgument("restore-admin"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.with(cmd.Context(), stderr, func(h *hub.Hub) error {
				err := h.RestoreAdmin(cmd.Context(), args[0])
				if err == nil {
					_, err = fmt.Fprintln(stdout, "the user is an admin")
				}
				return err
			})
		},
	}
}

func (s *settings) rekey(stdout, stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "rekey",
		Short: "Encrypt all secrets with the first key of PROVIDER_ENCRYPTION_KEY",
		Long:  "Encrypts all secrets in the database with the first key of PROVIDER_ENCRYPTION_KEY. The other keys can be removed afterwards.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), stderr, func(h *hub.Hub) error {
				n, err := h.Rekey(cmd.Context())
				if err == nil {
					_, err = fmt.Fprintf(stdout, "%d secrets were encrypted again\n", n)
				}
				return err
			})
		},
	}
}

func (s *settings) retireKey(stdout, stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "retire-key",
		Short: "Replace the token signing key immediately, after a leak",
		Long: `Replaces the key that signs access tokens and rejects all tokens that were signed before. Running hubs follow
within 2 seconds. Users stay signed in: clients get a new access token with their refresh token.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), stderr, func(h *hub.Hub) error {
				err := h.RetireKey(cmd.Context())
				if err == nil {
					_, err = fmt.Fprintln(stdout, "the token signing key was replaced")
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
		Long:  "Writes the audit log of a tenant as NDJSON, oldest first. The tenant system contains the entries of no organization.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.with(cmd.Context(), stderr, func(h *hub.Hub) error {
				return h.WriteAudit(cmd.Context(), stdout, tenant)
			})
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", tenant, "`tenant` of the log")
	return cmd
}
