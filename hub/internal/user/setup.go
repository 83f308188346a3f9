package user

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

// firstUsername is the username of the first admin if the request has none.
const firstUsername = "admin"

// setupTokenRow is the prefix of the rows of setup tokens in the instance table. The hash of the
// token follows; the value is its expiry. Each replica that starts generates a token, and every
// replica accepts all of them until the first user is created. A token of the Config has the prefix
// givenTokenRow, and only one of these rows exists.
const (
	setupTokenRow = "setup_token/"
	givenTokenRow = setupTokenRow + "given/"
)

// setupTokenLife is how long a setup token is valid after a hub that knows it last extended it.
const setupTokenLife = 24 * time.Hour

func setupRow(kind, raw string) string { return kind + hex.EncodeToString(token.Hash(raw)) }

// setupExpiry has a fixed width, so that the database orders it as text.
func setupExpiry(t time.Time) string { return fmt.Sprintf("%020d", db.Micros(t)) }

// SetupToken returns the one-time token that New generated for the creation of the first user. It
// is for the operator who started the hub. It is "" if a user existed then, or if the Config has
// the token.
func (s *Service) SetupToken() string { return s.setup }

// prepareSetup stores the hash of the setup token while there are no users.
func (s *Service) prepareSetup(ctx context.Context) error {
	required, err := setupRequired(ctx, s.store.Read())
	if err != nil || !required {
		return err
	}

	if s.cfg.SetupToken == "" {
		s.setup, _ = token.Random("")
		s.setupRow = setupRow(setupTokenRow, s.setup)
	} else {
		s.setupRow = setupRow(givenTokenRow, s.cfg.SetupToken)
	}

	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if s.cfg.SetupToken != "" { // tokens of former configurations are no longer valid
			if err := deleteGivenTokens(ctx, tx, s.setupRow); err != nil {
				return err
			}
		}

		return insertSetupToken(ctx, tx, s.setupRow, s.store.Now().Add(setupTokenLife))
	})
	return db.Wrap("store setup token", err)
}

// renewSetup extends this hub's setup token if it is still stored, and deletes the expired ones.
func (s *Service) renewSetup(ctx context.Context) error {
	if s.setupRow == "" {
		return nil
	}

	return renewSetupToken(ctx, s.store.DB.Write(), s.setupRow, s.store.Now())
}

// Setup creates the first user, an admin. One of several concurrent calls succeeds.
func (s *Service) Setup(ctx context.Context, from api.Caller, in wire.SetupRequest, signIn SignIn) error {
	required, err := setupRequired(ctx, s.store.Read())
	if err != nil {
		return err
	}

	if !required {
		return code.AlreadyInitialized
	}

	if err := s.allowSetup(ctx, from, in); err != nil {
		return err
	}

	faults := api.Fields{}
	u := checkAccount(faults, cmp.Or(in.Username, firstUsername), in.Password, "display_name", in.DisplayName)
	if err := faults.Err(); err != nil {
		return err
	}

	hash, err := s.passwords.Hash(ctx, password.Known("setup", from), in.Password)
	if err != nil {
		return err
	}

	return s.operate(ctx, api.DefaultTenant, func(tx *store.Tx) error {
		if err := checkSetup(ctx, tx); err != nil {
			return err
		}

		u = newUser(tx, u, api.DefaultTenant, rbac.Admin, hash)
		u.LastLoginAt = u.CreatedAt
		if err := insert(ctx, tx, u); err != nil {
			return err
		}

		if err := deleteSetupTokens(ctx, tx); err != nil {
			return err
		}

		tx.Record(actionSetup.Record(u.Event(from), auditlog.None{}))
		return signIn(ctx, tx, u)
	})
}

// checkSetup returns code.AlreadyInitialized if a concurrent call created the first user.
func checkSetup(ctx context.Context, tx *store.Tx) error {
	required, err := setupRequired(ctx, tx)
	if err == nil && !required {
		return code.AlreadyInitialized
	}

	return err
}

// allowSetup checks the setup token. It is required on a loopback listener too, because a proxy or
// a TCP forwarder on the same machine makes every caller look local. An incorrect token is counted
// and recorded like an incorrect password.
func (s *Service) allowSetup(ctx context.Context, from api.Caller, in wire.SetupRequest) error {
	if in.SetupToken == "" {
		return wire.Unauthenticated.New("Give the setup_token that the hub has printed at its start.")
	}

	ctx, cancel := password.Detached(ctx)
	defer cancel()
	attempt := password.SetupOf(from)
	if err := s.passwords.Start(ctx, attempt); err != nil {
		return err
	}

	if known, err := setupTokenKnown(ctx, s.store.Read(), in.SetupToken, s.store.Now()); err != nil || known {
		return err
	}

	e := from.Event()
	e.TenantID, e.TargetType, e.Status = api.DefaultTenant, targetUser, auditlog.Failure
	e.UserName = AuditName(cmp.Or(in.Username, firstUsername))
	var counted password.Counted
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) (err error) {
		if err := checkSetup(ctx, tx); err != nil { // the first user deletes the tokens
			return err
		}

		if counted, err = s.passwords.Count(ctx, tx, attempt); err == nil {
			RecordFailure(tx, e, "invalid_setup_token", counted)
		}

		return err
	})
	if err != nil {
		return err
	}

	return counted.Err(code.InvalidCredentials.New("Incorrect setup token: use the one that the hub printed at its last start."))
}

// Mode returns how users sign in, and whether the first user has to be created.
func (s *Service) Mode(ctx context.Context) (wire.Mode, error) {
	if s.cfg.External {
		return wire.Mode{Mode: s.source(), Program: s.cfg.Program}, nil
	}

	required, err := setupRequired(ctx, s.store.Read())
	return wire.Mode{Mode: s.source(), SetupRequired: required, Program: s.cfg.Program}, err
}

// ModeName returns builtin or external.
func (s *Service) ModeName() string { return s.source() }

// Sweep extends this hub's setup token, and deletes the invites that ended long ago.
func (s *Service) Sweep(ctx context.Context) error {
	if err := s.renewSetup(ctx); err != nil {
		return err
	}

	return deleteInvites(ctx, s.store.DB.Write(), s.store.Now().Add(-KeepShown))
}

// KeepShown is how long lists show an invite or a CLI token that can no longer be used.
const KeepShown = 90 * 24 * time.Hour
