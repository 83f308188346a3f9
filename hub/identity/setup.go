package identity

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/rbac"
)

type setupRequest struct {
	Username    string `json:"username"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"`
	SetupToken  string `json:"setup_token"`
}

// setupTokenRow begins the names of rows of the instance table; the hash of a setup token follows, and its value is when it
// expires. Each replica that starts makes its own, and any replica accepts all of them, until the first user is made. One
// that the Config gives stands below givenTokenRow, alone.
const (
	setupTokenRow = "setup_token/"
	givenTokenRow = setupTokenRow + "given/"
)

// setupTokenLife is since the last sign of life of a hub that knows the token.
const setupTokenLife = 24 * time.Hour

func setupRow(kind, token string) string { return kind + hex.EncodeToString(hashToken(token)) }

// setupExpiry has a fixed width, so that the database orders it as text.
func setupExpiry(t time.Time) string { return fmt.Sprintf("%020d", db.Micros(t)) }

// SetupToken is the one-time token with which the first user can be made: the one that New made, to be shown to whoever
// started the hub. It is "" where there are users already, or where the Config gave the token.
func (s *Service) SetupToken() string { return s.setup }

// prepareSetup stores the hash of the setup token while there are no users.
func (s *Service) prepareSetup(ctx context.Context) error {
	required, err := s.setupRequired(ctx, s.db.Read())
	if err != nil || !required {
		return err
	}
	if s.cfg.SetupToken == "" {
		s.setup, _ = newToken("")
		s.setupRow = setupRow(setupTokenRow, s.setup)
	} else {
		s.setupRow = setupRow(givenTokenRow, s.cfg.SetupToken)
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if s.cfg.SetupToken != "" { // those that were given before count no more
			_, err := tx.ExecContext(ctx, `DELETE FROM instance WHERE substr(name, 1, 18) = $1 AND name <> $2`, givenTokenRow, s.setupRow)
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO instance (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
			s.setupRow, setupExpiry(s.now().Add(setupTokenLife)))
		return err
	})
	return fault("store setup token", err)
}

// renewSetup is the sign of life for this hub's setup token, where the row is still there; those that have expired go.
func (s *Service) renewSetup(ctx context.Context) error {
	if s.setupRow == "" {
		return nil
	}
	_, err := s.db.Write().ExecContext(ctx, `UPDATE instance SET value = $1 WHERE name = $2`, setupExpiry(s.now().Add(setupTokenLife)), s.setupRow)
	if err != nil {
		return fault("renew setup token", err)
	}
	_, err = s.db.Write().ExecContext(ctx, `DELETE FROM instance WHERE substr(name, 1, 12) = $1 AND value <= $2`,
		setupTokenRow, setupExpiry(s.now()))
	return fault("delete setup tokens", err)
}

func (s *Service) setupRequired(ctx context.Context, q querier) (required bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM members WHERE tenant_id = $1)`, DefaultTenant).Scan(&required)
	return required, fault("read members", err)
}

// doSetup makes the first user, an admin. Of any number of calls at once, one does.
func (s *Service) doSetup(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[setupRequest](w, r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	required, err := s.setupRequired(ctx, s.db.Read())
	if err != nil {
		return err
	}
	if !required {
		return api.AlreadyInitialized
	}
	if err := s.allowSetup(r, in.SetupToken); err != nil {
		return err
	}
	m, err := firstMember(in)
	if err != nil {
		return err
	}
	hash, err := s.hashPassword(ctx, in.Password)
	if err != nil {
		return err
	}
	m = s.newMember(m, DefaultTenant, rbac.Admin, hash)
	m.LastLoginAt = m.CreatedAt
	var body loginBody
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if err := lockTenant(ctx, tx, m.TenantID); err != nil {
			return err
		}
		required, err := s.setupRequired(ctx, tx)
		if err != nil {
			return err
		}
		if !required {
			return api.AlreadyInitialized
		}
		if err := insertMember(ctx, tx, m); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM instance WHERE substr(name, 1, 12) = $1`, setupTokenRow); err != nil {
			return fault("delete setup tokens", err)
		}
		if body, err = s.newSession(ctx, tx, m, r); err != nil {
			return err
		}
		return s.record(ctx, tx, actionSetup.Record(selfEvent(r, m), auditlog.None{}))
	})
	if err != nil {
		return err
	}
	return api.Encode(w, http.StatusCreated, body)
}

func firstMember(in setupRequest) (member, error) {
	faults := api.Fields{}
	m := checkAccount(faults, cmp.Or(in.Username, "admin"), in.Password, "display_name", in.DisplayName)
	return m, faults.Err()
}

// allowSetup asks for the setup token, unless whoever calls sits at this machine. Wrong ones are counted as wrong
// passwords are.
func (s *Service) allowSetup(r *http.Request, token string) error {
	if s.cfg.Loopback && local(r) {
		return nil
	}
	if token == "" {
		return api.Unauthenticated.New("Give the setup_token that the hub has printed at its start.")
	}
	ctx, cancel := detached(r)
	defer cancel()
	try := attemptOf(r, setupAccount)
	if err := s.checkLocked(ctx, s.db.Read(), try); err != nil {
		return err
	}
	var known bool
	err := s.db.Read().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM instance WHERE name IN ($1, $2) AND value > $3)`,
		setupRow(setupTokenRow, token), setupRow(givenTokenRow, token), setupExpiry(s.now())).Scan(&known)
	if err != nil {
		return fault("read setup tokens", err)
	}
	if known {
		return nil
	}
	if err := s.db.Tx(ctx, func(tx *sql.Tx) error { return s.countFailure(ctx, tx, try) }); err != nil {
		return err
	}
	return api.InvalidCredentials.New("The setup_token is wrong: take the one that the hub has printed at its last start.")
}

// local tells whether a request names this machine as its host and came through no proxy. A page that got a name of its
// own to point here has that name as its host.
func local(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded") {
			return false
		}
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
