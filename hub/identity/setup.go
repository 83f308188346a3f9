package identity

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

type setupRequest struct {
	Username    string `json:"username"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name"`
	SetupToken  string `json:"setup_token"`
}

// setupTokenRow begins the names of rows of the instance table; the hash of a setup token follows. Each replica that
// starts makes its own, and any replica accepts all of them, until the first user is made.
const setupTokenRow = "setup_token/"

func setupRow(token string) string { return setupTokenRow + hex.EncodeToString(hashToken(token)) }

// SetupToken is the one-time token with which the first user can be made: the one that New made, to be shown to whoever
// started the hub. It is "" where there are users already, or where the Config gave the token.
func (s *Service) SetupToken() string { return s.setup }

// SetupURL is the page of the first-run setup, with the setup token where there is one. The token stands behind the #,
// which no browser sends anywhere.
func (s *Service) SetupURL() string {
	url := s.cfg.PublicURL + "/console/setup"
	if s.setup != "" {
		url += "#token=" + s.setup
	}
	return url
}

// prepareSetup stores the hash of the setup token while there are no users.
func (s *Service) prepareSetup(ctx context.Context) error {
	required, err := s.setupRequired(ctx, s.db.Read())
	if err != nil || !required {
		return err
	}
	token := s.cfg.SetupToken
	if token == "" {
		s.setup, _ = newToken("")
		token = s.setup
	}
	_, err = s.db.Write().ExecContext(ctx, `INSERT INTO instance (name, value) VALUES ($1, '') ON CONFLICT (name) DO NOTHING`, setupRow(token))
	return fault("store setup token", err)
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
	ctx, try := context.WithoutCancel(r.Context()), attemptOf(r, setupAccount)
	if err := s.checkLocked(ctx, s.db.Read(), try); err != nil {
		return err
	}
	var name string
	err := s.db.Read().QueryRowContext(ctx, `SELECT name FROM instance WHERE name = $1`, setupRow(token)).Scan(&name)
	if err == nil {
		return nil
	}
	if err := orElse(err, nil); err != nil {
		return err
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
