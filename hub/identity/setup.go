package identity

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/rbac"
)

// SetupInput is the account of the first user, and the setup token.
type SetupInput struct {
	Username    string `json:"username"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"`
	SetupToken  string `json:"setup_token"`
}

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

func setupRow(kind, token string) string { return kind + hex.EncodeToString(hashToken(token)) }

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
		s.setup, _ = newToken("")
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

// Setup creates the first user, an admin, and signs the user in. One of several concurrent calls
// succeeds.
func (s *Service) Setup(ctx context.Context, from api.Caller, in SetupInput) (signIn SignIn, err error) {
	if err := s.keys.ready(ctx); err != nil {
		return SignIn{}, err
	}
	required, err := setupRequired(ctx, s.store.Read())
	if err != nil {
		return SignIn{}, err
	}
	if !required {
		return SignIn{}, api.AlreadyInitialized
	}
	if err := s.allowSetup(ctx, from, in); err != nil {
		return SignIn{}, err
	}
	m, err := firstMember(in)
	if err != nil {
		return SignIn{}, err
	}
	hash, err := s.hashPassword(ctx, knownShare("setup", from), in.Password)
	if err != nil {
		return SignIn{}, err
	}
	m = s.newMember(m, DefaultTenant, rbac.Admin, hash)
	m.LastLoginAt = m.CreatedAt
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := lockTenant(ctx, tx.Tx, m.TenantID); err != nil {
			return err
		}
		required, err := setupRequired(ctx, tx)
		if err != nil {
			return err
		}
		if !required {
			return api.AlreadyInitialized
		}
		if err := insertMember(ctx, tx, m); err != nil {
			return err
		}
		if err := deleteSetupTokens(ctx, tx); err != nil {
			return err
		}
		if signIn, err = s.newSession(ctx, tx, m, from, ""); err != nil {
			return err
		}
		tx.Record(actionSetup.Record(selfEvent(from, m), auditlog.None{}))
		return nil
	})
	return signIn, err
}

func firstMember(in SetupInput) (member, error) {
	faults := api.Fields{}
	m := checkAccount(faults, cmp.Or(in.Username, firstUsername), in.Password, "display_name", in.DisplayName)
	return m, faults.Err()
}

// allowSetup checks the setup token. It is required on a loopback listener too, because a proxy or
// a TCP forwarder on the same machine makes every caller look local. An incorrect token is counted
// and recorded like an incorrect password.
func (s *Service) allowSetup(ctx context.Context, from api.Caller, in SetupInput) error {
	token := in.SetupToken
	if token == "" {
		return api.Unauthenticated.New("Give the setup_token that the hub has printed at its start.")
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	try := attemptOf(from, setupAccount)
	if err := s.checkLocked(ctx, s.store.Read(), try); err != nil {
		return err
	}
	if known, err := setupTokenKnown(ctx, s.store.Read(), token, s.store.Now()); err != nil || known {
		return err
	}
	e := from.Event()
	e.TenantID, e.TargetType, e.Status = DefaultTenant, targetUser, auditlog.Failure
	e.UserName = excerpt.Characters(api.Plain(cmp.Or(in.Username, firstUsername)), maxAuditName)
	err := s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		required, err := setupRequired(ctx, tx)
		if err != nil {
			return err
		}
		if !required { // a concurrent call created the first user, which deletes the tokens
			return api.AlreadyInitialized
		}
		if err := s.countFailure(ctx, tx, try); err != nil {
			return err
		}
		tx.Record(actionLoginFailed.Record(e, loginFailedDetail{reasonSetupToken}))
		return nil
	})
	if err != nil {
		return err
	}
	return api.InvalidCredentials.New("Incorrect setup token: use the one that the hub printed at its last start.")
}
