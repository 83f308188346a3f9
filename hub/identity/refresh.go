package identity

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// reuseGrace is how long after its rotation a refresh token may come again without harm: a lost race, or a client that did
// not get the answer.
const reuseGrace = 10 * time.Second

type refreshRequest struct {
	RefreshToken string `json:"refresh_token"`
}

// family is the session that a refresh token belongs to.
type family struct {
	member  member
	session string
	revoked bool
	idle    time.Time
	limit   time.Time
	rotated time.Time // when the token gave the next one; the zero time where it is the newest
}

func readFamily(ctx context.Context, q querier, hash []byte) (f family, err error) {
	var (
		revoked, rotated sql.NullInt64
		idle, limit      int64
	)
	f.member, err = scanMember(q.QueryRowContext(ctx, `SELECT `+memberColumns+`, s.id, s.revoked_at, s.idle_until, s.expires_at, t.rotated_at
		FROM refresh_tokens t JOIN sessions s ON s.id = t.session_id JOIN members m ON m.id = s.user_id WHERE t.hash = $1`, hash),
		&f.session, &revoked, &idle, &limit, &rotated)
	if errors.Is(err, sql.ErrNoRows) {
		return f, api.Unauthenticated.New("The refresh token is unknown: sign in again.")
	}
	f.revoked, f.idle, f.limit, f.rotated = revoked.Valid, db.Time(idle), db.Time(limit), timeOf(rotated)
	return f, fault("read session", err)
}

// usable tells why a session's newest token gives no next one.
func (f family) usable(now time.Time) error {
	switch {
	case !f.member.active():
		return api.AccountDisabled
	case f.revoked:
		return api.TokenRevoked
	case !now.Before(f.idle) || !now.Before(f.limit):
		return api.TokenExpired
	}
	return nil
}

// refresh gives the next pair of tokens. Of any number of calls with one token, one wins.
func (s *Service) refresh(w http.ResponseWriter, r *http.Request) error {
	in, err := api.Decode[refreshRequest](w, r)
	if err != nil {
		return err
	}
	if in.RefreshToken == "" {
		return api.Fields{"refresh_token": "must not be empty"} //nolint:gosec // a field's name, no credential
	}
	ctx, hash := r.Context(), hashToken(in.RefreshToken)
	if _, err := readFamily(ctx, s.db.Read(), hash); err != nil { // a stranger's token locks nothing
		return err
	}
	var (
		body   loginBody
		reused bool
		stolen string // the user whose session the reuse has ended
	)
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		now := s.now()
		reused, stolen = false, ""
		n, err := affected(ctx, tx, "rotate refresh token", `UPDATE refresh_tokens SET rotated_at = $1 WHERE hash = $2 AND rotated_at IS NULL`,
			db.Micros(now), hash)
		if err != nil {
			return err
		}
		f, err := readFamily(ctx, tx, hash)
		if err != nil {
			return err
		}
		if n == 0 {
			reused = true
			stolen, err = s.reuse(ctx, tx, r, f, now)
			return err
		}
		if err := f.usable(now); err != nil {
			return err
		}
		// The session may have ended since it was read.
		n, err = affected(ctx, tx, "update session", `UPDATE sessions SET last_used_at = $1, idle_until = $2, remote_ip = $3, user_agent = $4
			WHERE id = $5 AND revoked_at IS NULL`,
			db.Micros(now), db.Micros(now.Add(sessionIdle)), api.RemoteIP(r), api.UserAgent(r), f.session)
		if err != nil {
			return err
		}
		if n == 0 {
			return api.TokenRevoked
		}
		body, err = s.newTokens(ctx, tx, f.member, f.session, now, f.limit)
		return err
	})
	switch {
	case err != nil:
		return err
	case stolen != "":
		s.invalidateUser(stolen)
		return api.RefreshReused
	case reused:
		return api.RefreshReused
	}
	return api.Encode(w, http.StatusOK, body)
}

// reuse ends the family of a token that came again too late to be a retry: somebody has a copy. It answers the user where
// there was anything to end.
func (s *Service) reuse(ctx context.Context, tx *sql.Tx, r *http.Request, f family, now time.Time) (user string, err error) {
	if now.Sub(f.rotated) <= reuseGrace {
		return "", nil
	}
	ended, err := s.endSession(ctx, tx, f.member.ID, f.session, endedByReuse)
	if err != nil || !ended {
		return "", err
	}
	e := aboutSession(selfEvent(r, f.member), f.session, f.member.Username)
	e.Status = auditlog.Failure
	return f.member.ID, s.record(ctx, tx, actionRefreshReuse.Record(e, sessionDetail{f.session}))
}
