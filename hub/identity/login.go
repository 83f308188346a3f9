package identity

import (
	"database/sql"
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

type loginRequest struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// errChanged says that a member was changed while its password was checked.
var errChanged = errors.New("member changed meanwhile")

// login answers an unknown user as it does a wrong password, after the same work.
func (s *Service) login(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[loginRequest](w, r)
	if err != nil {
		return err
	}
	faults := api.Fields{}
	if in.Username == "" {
		faults.Add("username", "must not be empty")
	}
	if in.Password == "" {
		faults.Add("password", "must not be empty")
	}
	if err := faults.Err(); err != nil {
		return err
	}
	const tries = 3 // the member may change while the hash is made
	for range tries {
		body, err := s.tryLogin(r, in)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return err
		}
		return api.Encode(w, http.StatusOK, body)
	}
	return api.InvalidCredentials
}

func (s *Service) tryLogin(r *http.Request, in loginRequest) (body loginBody, err error) {
	ctx, try := r.Context(), attemptOf(r, in.Username)
	if err := s.checkLocked(ctx, s.db.Read(), try); err != nil {
		return body, err
	}
	m, err := memberByName(ctx, s.db.Read(), DefaultTenant, in.Username)
	if err != nil && !errors.Is(err, errNoMember) {
		return body, err
	}
	right, err := s.verifyPassword(ctx, m.PasswordHash, in.Password)
	switch {
	case err != nil:
		return body, err
	case !right:
		return body, s.refuseLogin(r, m, in.Username, api.InvalidCredentials)
	case !m.active():
		return body, s.refuseLogin(r, m, in.Username, api.AccountDisabled)
	}
	hash := m.PasswordHash
	if outdated(hash) {
		if hash, err = s.hashPassword(ctx, in.Password); err != nil {
			return body, err
		}
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		// The row is locked from here on: no password change or disabling can come between the check and the session.
		n, err := affected(ctx, tx, "update member", `UPDATE members SET last_login_at = $1, password_hash = $2
			WHERE id = $3 AND password_hash = $4 AND status = $5`, db.Micros(s.now()), hash, m.ID, m.PasswordHash, statusActive)
		if err != nil {
			return err
		}
		if n == 0 {
			return errChanged
		}
		if err := s.clearFailures(ctx, tx, try); err != nil {
			return err
		}
		// The name or role that the answer tells may have changed with the password.
		now, err := memberByID(ctx, tx, m.TenantID, m.ID)
		if err != nil {
			return err
		}
		if body, err = s.newSession(ctx, tx, now, r); err != nil {
			return err
		}
		return s.record(ctx, tx, actionLogin.Record(selfEvent(r, now), sessionDetail{body.session}))
	})
	return body, err
}

// refuseLogin counts and records a failure, and answers why. A client that does not wait for the answer is counted too.
func (s *Service) refuseLogin(r *http.Request, m member, name string, why api.Code) error {
	ctx, cancel := detached(r)
	defer cancel()
	e := api.RequestEvent(r)
	e.TenantID, e.UserID, e.UserName, e.Status = DefaultTenant, m.ID, cut(api.Plain(name), maxAuditName), auditlog.Failure
	e.TargetType, e.TargetID, e.TargetName = targetUser, m.ID, m.Username
	err := s.db.Tx(ctx, func(tx *sql.Tx) error {
		count := s.countFailure
		if why != api.InvalidCredentials { // the password was right
			count = s.countNetwork
		}
		if err := count(ctx, tx, attemptOf(r, name)); err != nil {
			return err
		}
		return s.record(ctx, tx, actionLoginFailed.Record(e, loginFailedDetail{string(why)}))
	})
	if err != nil {
		return err
	}
	return why
}
