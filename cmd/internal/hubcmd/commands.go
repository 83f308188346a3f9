package hubcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/hub"
)

const namesOfUsers = "USER is ORGANIZATION/USERNAME, ORGANIZATION/sub:SUBJECT, or only USERNAME for the organization default."

// commands returns the commands for operators.
func (s *Settings) commands(stdout, stderr io.Writer) []*cobra.Command {
	tenant := "default"
	follow := false
	audit := s.offline(stdout, stderr, &cobra.Command{
		Use:   "audit",
		Short: "Write the audit log as NDJSON, oldest first",
		Long:  "Writes the audit log of a tenant as NDJSON, oldest first. The tenant system contains the entries of no organization.",
	}, func(ctx context.Context, h *hub.Hub, _ string) (string, error) {
		return "", h.WriteAudit(ctx, stdout, tenant, follow)
	})
	audit.Flags().StringVar(&tenant, "tenant", tenant, "`tenant` of the log")
	audit.Flags().BoolVarP(&follow, "follow", "f", false, "continue with entries that are appended later, until SIGTERM or SIGINT")
	return append(append(s.archives(stdout, stderr), s.doctor(stdout)),
		s.offline(stdout, stderr, &cobra.Command{
			Use:   "reset-password USER",
			Short: "Print a new password for a user",
			Long: `Sets a new password for a user, which must be changed, and prints only the password. Ends the user's sessions and
revokes the CLI tokens and the open invitations that the user created.`,
		}, func(ctx context.Context, h *hub.Hub, user string) (string, error) { return h.ResetPassword(ctx, user) }),
		s.offline(stdout, stderr, &cobra.Command{
			Use:   "admin-token USER",
			Short: "Print a token of an admin that is valid for an hour",
			Long: `Prints a token of an active admin that is valid for an hour, for the time in which the identity provider is
unavailable. The token is recorded and is one of the admin's CLI tokens. ` + namesOfUsers,
		}, func(ctx context.Context, h *hub.Hub, user string) (string, error) { return h.AdminToken(ctx, user) }),
		s.offline(stdout, stderr, &cobra.Command{
			Use:   "restore-admin USER",
			Short: "Make a user an admin, after the identity provider was replaced",
			Long: `Makes a user who has signed in once an active admin. After the issuer of an organization was changed, its
users are new ones, and members. ` + namesOfUsers,
		}, func(ctx context.Context, h *hub.Hub, user string) (string, error) {
			return "the user is an admin", h.RestoreAdmin(ctx, user)
		}),
		s.offline(stdout, stderr, &cobra.Command{
			Use:   "adopt",
			Short: "Take over the process deployments of a machine that is gone",
			Long: `Lets the next hub that starts have the process deployments of another machine or data directory. It starts them
again, without their files and conversations. The hub on the other machine must not run any more.`,
		}, func(ctx context.Context, h *hub.Hub, _ string) (string, error) {
			n, err := h.AdoptDeployments(ctx)
			return fmt.Sprintf("%d deployments belong to the next hub that starts", n), err
		}),
		s.offline(stdout, stderr, &cobra.Command{
			Use:   "stop-agents",
			Short: "Stop the agents that run on this machine without a hub",
			Long: `Stops the agents that continue to run on this machine after their hub has ended. The next hub that starts has them
run again. It fails while a hub serves the database: agenthost undeploy --stop stops an agent for longer.`,
		}, func(ctx context.Context, h *hub.Hub, _ string) (string, error) {
			if s.Deployer != deployProcess {
				return "", fmt.Errorf("DEPLOYER is %s: this command is for agents that are processes of this machine; agenthost undeploy --stop stops another one", s.Deployer)
			}

			driver, err := s.processes(filepath.Join(s.DataDir, deploymentsDir))
			if err != nil {
				return "", err
			}

			n, err := h.StopAgents(ctx, driver)
			return agents(n) + " stopped", err
		}),
		s.offline(stdout, stderr, &cobra.Command{
			Use:   "rekey",
			Short: "Encrypt all secrets with the first key of PROVIDER_ENCRYPTION_KEY",
			Long:  "Encrypts all secrets in the database with the first key of PROVIDER_ENCRYPTION_KEY. The other keys can be removed afterwards.",
		}, func(ctx context.Context, h *hub.Hub, _ string) (string, error) {
			n, err := h.Rekey(ctx)
			return fmt.Sprintf("%d secrets were encrypted again", n), err
		}),
		s.offline(stdout, stderr, &cobra.Command{
			Use:   "retire-key",
			Short: "Replace the token signing key immediately, after a leak",
			Long: `Replaces the key that signs access tokens and rejects all tokens that were signed before. Running hubs follow
within 2 seconds. Users stay signed in: clients get a new access token with their refresh token.`,
		}, func(ctx context.Context, h *hub.Hub, _ string) (string, error) {
			return "the token signing key was replaced", h.RetireKey(ctx)
		}),
		audit,
	)
}

// agents returns a number of agents as text.
func agents(n int) string {
	if n == 1 {
		return "1 agent"
	}

	return fmt.Sprintf("%d agents", n)
}

// requireDatabase returns an error if settings are invalid, or the SQLite database does not exist.
func (s *Settings) requireDatabase() error {
	if err := s.check(); err != nil {
		return err
	}

	path := s.databaseFile()
	if path == "" {
		return nil
	}

	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("no database exists: %w; set HUB_DATA_DIR or DATABASE_URL", err)
	}

	return nil
}

// offline completes a command that calls do with an offline hub and prints the returned line. Other
// hubs may serve the same database at the same time. The user is the argument of the command, if
// its usage has one.
func (s *Settings) offline(stdout, stderr io.Writer, cmd *cobra.Command, do func(ctx context.Context, h *hub.Hub, user string) (string, error)) *cobra.Command {
	cmd.Args = noArguments
	if strings.HasSuffix(cmd.Use, " USER") {
		cmd.Args = func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one user: hub " + cmd.Use)
			}

			return nil
		}
	}

	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := s.requireDatabase(); err != nil {
			return err
		}

		h, err := s.open(cmd.Context(), nil, nil, nil, daemon.NewLogger(stderr, s.Level))
		if err != nil {
			return err
		}

		line, err := do(cmd.Context(), h, strings.Join(args, ""))
		if err == nil && line != "" {
			_, err = fmt.Fprintln(stdout, line)
		}

		return errors.Join(s.explainKey(err), h.Close())
	}
	return cmd
}
