package hub

import (
	"context"
	"errors"
	"io"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	"github.com/seed93082962/agenthost/hub/internal/user"
)

// SetupToken returns the generated token of the first-run setup, or "" if a user exists or Config
// has the token.
func (h *Hub) SetupToken() string { return h.users.SetupToken() }

// ResetPassword gives the user a new password and returns it. The user's sessions end, and CLI
// tokens are revoked.
func (h *Hub) ResetPassword(ctx context.Context, username string) (string, error) {
	return h.users.ResetPassword(ctx, username)
}

// RetireKey replaces the key that signs access tokens, after a leak. All tokens that were signed
// before are rejected, by running hubs within 2 seconds. Sessions continue with their next refresh.
func (h *Hub) RetireKey(ctx context.Context) error {
	if h.keys != nil {
		return h.keys.Retire(ctx, h.byOperator())
	}

	return token.Retire(ctx, h.store, h.byOperator())
}

// operatorName is the name of the operator in the audit log. No user can have it.
const operatorName = "operator at the command line"

// byOperator returns the event of a command of the operator, for the log of the only tenant of
// built-in mode, or of that of the system.
func (h *Hub) byOperator() auditlog.Event {
	e := auditlog.Event{TenantID: api.DefaultTenant, UserName: operatorName}
	if h.cfg.External {
		e.TenantID = api.SystemTenant
	}

	return e
}

var (
	actionRekey  = auditlog.Define[rekeyDetail]("auth.rekey")
	actionBackup = auditlog.Define[backupDetail]("auth.backup")
)

type rekeyDetail struct {
	Secrets int `json:"secrets"` // that were sealed with another key
}

type backupDetail struct {
	DatabaseSHA256 string `json:"databaseSha256"`
	Artifacts      int    `json:"artifacts"`
}

// AdminToken returns a token of an active admin that is valid for an hour, and records it. It is
// for the operator while the identity provider is unavailable. The user is given as
// organization/username, organization/sub:subject, or only a username of the tenant "default".
func (h *Hub) AdminToken(ctx context.Context, user string) (string, error) {
	name, err := h.adminName(ctx, user)
	if err != nil {
		return "", err
	}

	return h.cliTokens.IssueOffline(ctx, name)
}

// RestoreAdmin makes a user an active admin, who is given as for AdminToken and has signed in
// before. It is for the operator, after the issuer of an organization was changed.
func (h *Hub) RestoreAdmin(ctx context.Context, user string) error {
	name, err := h.adminName(ctx, user)
	if err != nil {
		return err
	}

	return h.users.RestoreAdmin(ctx, name)
}

// adminName returns the user with the current issuer of the organization.
func (h *Hub) adminName(ctx context.Context, text string) (user.AdminName, error) {
	n := user.ParseAdminName(text)
	var err error
	if h.cfg.External {
		_, n.Issuer, err = h.external.CheckOrg(ctx, n.TenantID)
	}

	return n, err
}

// AdoptDeployments lets the next hub that starts have the deployments of a machine that is gone,
// and returns their number.
func (h *Hub) AdoptDeployments(ctx context.Context) (int, error) { return h.deploys.Adopt(ctx) }

// FirstAdmin returns the oldest active admin of the tenant "default", or nil if there is none. It
// is for the Authenticate of a program of one person, who has an account of the hub too.
func (h *Hub) FirstAdmin(ctx context.Context) (*Caller, error) { return h.users.FirstAdmin(ctx) }

// RunningAgents returns the number of agents that Config.Deployer runs. They continue when the hub
// ends.
func (h *Hub) RunningAgents(ctx context.Context) (int, error) {
	if h.cfg.Deployer == nil {
		return 0, nil
	}

	running, err := h.deploys.Running(ctx, h.cfg.Deployer)
	return len(running), err
}

// StopAgents stops the agents that a driver runs, and returns their number. The next hub that
// starts has them run again. It fails while a hub serves the database.
func (h *Hub) StopAgents(ctx context.Context, driver deploy.Driver) (int, error) {
	return h.deploys.StopRuntimes(ctx, driver)
}

// WriteAudit writes the audit log of a tenant as NDJSON, oldest first, each entry with its hash. Of
// a damaged log it writes what is left before it returns the error. With follow, it also writes the
// entries that are appended later, until ctx ends, which is no error.
func (h *Hub) WriteAudit(ctx context.Context, w io.Writer, tenantID string, follow bool) error {
	return h.audit.Write(ctx, w, tenantID, follow)
}

// Rekey seals everything with the first encryption key, and returns how many secrets were sealed
// with another. It is recorded, with the status partial if a secret could not be opened.
func (h *Hub) Rekey(ctx context.Context) (int, error) {
	n, failed := h.store.Reseal(ctx, sealed()...)
	by := h.byOperator()
	if failed != nil {
		by.Status = auditlog.Partial
	}

	err := h.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		tx.Record(actionRekey.Record(by, rekeyDetail{Secrets: n}))
		return nil
	})
	return n, errors.Join(failed, err)
}
