package user

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

// Columns are the columns that [Scan] reads, in its order. The query names the table members m.
const Columns = `m.id, m.tenant_id, m.username, m.display_name, m.email, m.role, m.status, m.auth_source, COALESCE(m.issuer, ''), COALESCE(m.subject, ''),
	m.password_hash, m.password_changed_at, m.must_change, m.last_login_at, m.created_at, m.updated_at, m.group_names, m.device_epoch`

// returning are the columns of an UPDATE: SQLite permits no alias there.
var returning = strings.ReplaceAll(Columns, "m.", "")

// Scan reads Columns, and the columns after them into more.
func Scan(row db.Scanner, more ...any) (User, error) {
	var u User
	err := row.Scan(append([]any{&u.ID, &u.TenantID, &u.Username, &u.DisplayName, &u.Email, &u.Role, &u.Status, &u.AuthSource, &u.Issuer, &u.Subject,
		&u.PasswordHash, &u.PasswordChangedAt, &u.MustChange, &u.LastLoginAt, &u.CreatedAt, &u.UpdatedAt, db.JSON{V: &u.Groups}, &u.DeviceEpoch}, more...)...)
	if err != nil {
		return User{}, err
	}

	if err := u.Role.Check(); err != nil {
		return User{}, fmt.Errorf("read role of user %s: %w", u.ID, err)
	}

	return u, nil
}

// scanOne is Scan for a query of at most one row.
func scanOne(row db.Scanner) (User, error) {
	u, err := Scan(row)
	return u, db.WrapOne("read user", err, ErrNone)
}

// ByID also returns ErrNone for a user of another tenant.
func ByID(ctx context.Context, q db.Querier, tenantID, id string) (User, error) {
	return scanOne(q.QueryRowContext(ctx, `SELECT `+Columns+` FROM members m WHERE m.tenant_id = $1 AND m.id = $2`, tenantID, id))
}

// ByName finds a username in any letter case.
func ByName(ctx context.Context, q db.Querier, tenantID, username string) (User, error) {
	return scanOne(q.QueryRowContext(ctx, `SELECT `+Columns+` FROM members m WHERE m.tenant_id = $1 AND m.username_fold = $2`,
		tenantID, password.Fold(username)))
}

// firstAdmin finds the oldest active admin of a tenant.
func firstAdmin(ctx context.Context, q db.Querier, tenantID string) (User, error) {
	return scanOne(q.QueryRowContext(ctx, `SELECT `+Columns+` FROM members m WHERE m.tenant_id = $1 AND m.role = $2 AND m.status = $3
		ORDER BY m.created_at, m.id LIMIT 1`, tenantID, rbac.Admin, Active))
}

// BySubject finds a user of external mode.
func BySubject(ctx context.Context, q db.Querier, tenantID, issuer, subject string) (User, error) {
	return scanOne(q.QueryRowContext(ctx, `SELECT `+Columns+` FROM members m WHERE m.tenant_id = $1 AND m.issuer = $2 AND m.subject = $3`,
		tenantID, issuer, subject))
}

// usersOf returns a page of the users of a tenant, the oldest first, and the number of all.
func usersOf(ctx context.Context, q db.Querier, tenantID string, page api.Page) ([]User, int, error) {
	part := db.Page{Order: `m.created_at, m.id`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, q, "list users", func(row db.Scanner) (User, error) { return Scan(row) }, part,
		`SELECT `+Columns+` FROM members m WHERE m.tenant_id = $1`, tenantID)
}

// insertTenant creates a tenant if it does not exist.
func insertTenant(ctx context.Context, q db.Querier, id string, now time.Time) error {
	return db.Exec(ctx, q, "insert tenant",
		`INSERT INTO tenants (id, created_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, id, db.Micros(now))
}

// LockTenant makes the transaction wait for all others that change users, invites and CLI tokens of
// the tenant. Call it before reading rows that the decision depends on.
func LockTenant(ctx context.Context, tx *sql.Tx, tenantID string) error {
	return db.Exec(ctx, tx, "lock tenant", `UPDATE tenants SET version = version + 1 WHERE id = $1`, tenantID)
}

// lockUser makes the transaction wait for others that change the user.
func lockUser(ctx context.Context, tx *store.Tx, tenantID, id string) error {
	return db.Exec(ctx, tx, "lock user", `UPDATE members SET updated_at = updated_at WHERE tenant_id = $1 AND id = $2`, tenantID, id)
}

// HasUsers reports whether the tenant has users.
func HasUsers(ctx context.Context, q db.Querier, tenantID string) (bool, error) {
	return db.Value[bool](ctx, q, "read users", `SELECT EXISTS (SELECT 1 FROM members WHERE tenant_id = $1)`, tenantID)
}

// otherAdmins counts the admins without u who can sign in in the mode of the hub: with the issuer
// of the user who makes the change, not with a former one of the tenant.
func (s *Service) otherAdmins(ctx context.Context, tx *store.Tx, u User) (int, error) {
	return db.Value[int](ctx, tx, "count admins", `SELECT COUNT(*) FROM members
		WHERE tenant_id = $1 AND role = $2 AND status = $3 AND auth_source = $4 AND id <> $5 AND COALESCE(issuer, '') =
			COALESCE((SELECT c.issuer FROM members c WHERE c.tenant_id = $1 AND c.id = $6), '')`,
		u.TenantID, string(rbac.Admin), Active, s.source(), u.ID, cmp.Or(tx.Caller.UserID, u.ID))
}

// insert stores a new user. A name that is taken is a db.UniqueViolation.
func insert(ctx context.Context, tx *store.Tx, u User) error {
	return db.Exec(ctx, tx, "insert user", `INSERT INTO members (id, tenant_id, username, username_fold, display_name, email, role, status,
			auth_source, issuer, subject, password_hash, password_changed_at, must_change, last_login_at, created_at, updated_at, group_names)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		u.ID, u.TenantID, u.Username, password.Fold(u.Username), u.DisplayName, u.Email, string(u.Role), u.Status,
		u.AuthSource, nullText(u.Issuer), nullText(u.Subject), u.PasswordHash, u.PasswordChangedAt, u.MustChange,
		u.LastLoginAt, u.CreatedAt, u.UpdatedAt, db.JSON{V: &u.Groups, Zero: "[]"})
}

// nullText stores the empty text as NULL.
func nullText(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// update stores the role, the status and the display name.
func update(ctx context.Context, tx *store.Tx, u User) error {
	return db.Exec(ctx, tx, "update user", `UPDATE members SET role = $1, status = $2, display_name = $3, updated_at = $4
		WHERE tenant_id = $5 AND id = $6`, string(u.Role), u.Status, u.DisplayName, u.UpdatedAt, u.TenantID, u.ID)
}

// remove deletes the user and, by the schema, the sessions and tokens.
func remove(ctx context.Context, tx *store.Tx, u User) error {
	return db.Exec(ctx, tx, "delete user", `DELETE FROM members WHERE tenant_id = $1 AND id = $2`, u.TenantID, u.ID)
}

// setPassword stores the hash of a password that the user must change.
func setPassword(ctx context.Context, tx *store.Tx, u User, hash string) error {
	return db.Exec(ctx, tx, "update user",
		`UPDATE members SET password_hash = $1, password_changed_at = $2, must_change = TRUE, updated_at = $2
		WHERE tenant_id = $3 AND id = $4`, hash, db.Micros(tx.Now), u.TenantID, u.ID)
}

// RecordLogin records a login, stores the hash of the password, and returns the user as stored. It
// returns ErrNone if the password or the status has changed since u was read. The row is then
// locked until the transaction ends.
func RecordLogin(ctx context.Context, tx *store.Tx, u User, hash string) (User, error) {
	return scanOne(tx.QueryRowContext(ctx, `UPDATE members SET last_login_at = $1, password_hash = $2
		WHERE tenant_id = $3 AND id = $4 AND password_hash = $5 AND status = $6 RETURNING `+returning,
		db.Micros(tx.Now), hash, u.TenantID, u.ID, u.PasswordHash, Active))
}

// ChangePassword stores the hash of a password that the user chose. It reports false if the
// password or the status has changed since u was read.
func ChangePassword(ctx context.Context, tx *store.Tx, u User, hash string) (bool, error) {
	n, err := db.Affected(ctx, tx, "update user", `UPDATE members SET password_hash = $1, password_changed_at = $2, must_change = FALSE, updated_at = $2
		WHERE tenant_id = $3 AND id = $4 AND password_hash = $5 AND status = $6`,
		hash, db.Micros(tx.Now), u.TenantID, u.ID, u.PasswordHash, Active)
	return n > 0, err
}

// recordExternal records a login and returns the user, or ErrNone. It changes nothing of a disabled
// one. The row is locked until the transaction ends.
func recordExternal(ctx context.Context, tx *store.Tx, e External) (User, error) {
	return scanOne(tx.QueryRowContext(ctx, `UPDATE members SET
			last_login_at = CASE WHEN status = $1 THEN $2 ELSE last_login_at END,
			email = CASE WHEN status = $1 THEN $3 ELSE email END,
			group_names = CASE WHEN status = $1 THEN $4 ELSE group_names END
		WHERE tenant_id = $5 AND issuer = $6 AND subject = $7 RETURNING `+returning,
		Active, db.Micros(tx.Now), externalEmail(e.Email), db.JSON{V: &e.Groups, Zero: "[]"}, e.TenantID, e.Issuer, e.Subject))
}

// useBootstrap reports whether the key, which is the folded username or has a slash, makes its user
// an admin. It does so once.
func useBootstrap(ctx context.Context, tx *store.Tx, tenantID, key string) (bool, error) {
	n, err := db.Affected(ctx, tx, "use bootstrap admin", `INSERT INTO bootstrap_admins (tenant_id, username_fold, used_at)
		VALUES ($1, $2, $3) ON CONFLICT (tenant_id, username_fold) DO NOTHING`, tenantID, key, db.Micros(tx.Now))
	return n > 0, err
}

// EndSessions ends all sessions of a user but one ("" for none), and returns the ids of the live
// ones. It revokes the device tokens of the user. Call [Service.Changed] after the commit.
func EndSessions(ctx context.Context, tx *store.Tx, u User, except, why string) ([]string, error) {
	err := db.Exec(ctx, tx, "revoke devices", `UPDATE members SET device_epoch = device_epoch + 1 WHERE tenant_id = $1 AND id = $2`, u.TenantID, u.ID)
	if err != nil {
		return nil, err
	}

	// Expired sessions end too: a concurrent refresh must not extend one.
	var live []string
	_, err = db.Collect(ctx, tx, "end sessions", func(row db.Scanner) (alive bool, err error) {
		var id string
		if err = row.Scan(&id, &alive); alive {
			live = append(live, id)
		}

		return alive, err
	}, `UPDATE sessions SET revoked_at = $1, revoked_why = $2
		WHERE tenant_id = $5 AND user_id = $3 AND id <> $4 AND revoked_at IS NULL RETURNING id, idle_until > $1 AND expires_at > $1`,
		db.Micros(tx.Now), why, u.ID, except, u.TenantID)
	return live, err
}

// RevokeTokens revokes all CLI tokens of a user, and returns how many were valid. Call
// [Service.Changed] after the commit.
func RevokeTokens(ctx context.Context, tx *store.Tx, u User) (int, error) {
	return liveRows(ctx, tx, "revoke tokens", `UPDATE cli_tokens SET revoked_at = $1 WHERE tenant_id = $3 AND user_id = $2 AND revoked_at IS NULL
		RETURNING expires_at IS NULL OR expires_at > $1`, db.Micros(tx.Now), u.ID, u.TenantID)
}

// EndedAccess is what the users of a tenant lost.
type EndedAccess struct {
	Sessions int // live ones
	Tokens   int // valid CLI tokens
}

// EndExternalAccess ends the sessions and CLI tokens of the users of a tenant who sign in with an
// identity provider, except those of an issuer.
func EndExternalAccess(ctx context.Context, tx *store.Tx, tenantID, keepIssuer string) (EndedAccess, error) {
	const users = `user_id IN (SELECT id FROM members WHERE tenant_id = $1 AND auth_source = $2 AND issuer <> $3)`
	var ended EndedAccess
	var err error
	if ended.Sessions, err = liveRows(ctx, tx, "end sessions", `UPDATE sessions SET revoked_at = $4, revoked_why = $5
		WHERE tenant_id = $1 AND `+users+` AND revoked_at IS NULL RETURNING idle_until > $4 AND expires_at > $4`,
		tenantID, sourceExternal, keepIssuer, db.Micros(tx.Now), endedByOrganization); err != nil {
		return ended, err
	}

	err = db.Exec(ctx, tx, "revoke devices", `UPDATE members SET device_epoch = device_epoch + 1
		WHERE tenant_id = $1 AND auth_source = $2 AND issuer <> $3`, tenantID, sourceExternal, keepIssuer)
	if err != nil {
		return ended, err
	}

	ended.Tokens, err = liveRows(ctx, tx, "revoke tokens", `UPDATE cli_tokens SET revoked_at = $4
		WHERE tenant_id = $1 AND `+users+` AND revoked_at IS NULL RETURNING expires_at IS NULL OR expires_at > $4`,
		tenantID, sourceExternal, keepIssuer, db.Micros(tx.Now))
	return ended, err
}

// liveRows runs a statement that returns for each row whether it was live, and returns their
// number.
func liveRows(ctx context.Context, tx *store.Tx, what, query string, args ...any) (int, error) {
	all, err := db.Values[bool](ctx, tx, what, query, args...)
	var live int
	for _, alive := range all {
		if alive {
			live++
		}
	}

	return live, err
}

// ReadAccess returns the access of sessions and CLI tokens by their ids, at most MaxAccesses. The
// query has one form for one id and one for all other numbers, which connections keep prepared.
func ReadAccess(ctx context.Context, q db.Querier, now time.Time, ids ...string) (map[string]Access, error) {
	n := 1
	if len(ids) > 1 {
		n = MaxAccesses
	}

	marks := make([]string, n)
	args := make([]any, n)
	for i := range n {
		marks[i], args[i] = fmt.Sprintf("$%d", i+1), ""
		if i < len(ids) {
			args[i] = ids[i]
		}
	}

	in := strings.Join(marks, ", ")
	found, err := db.Collect(ctx, q, "read access", func(row db.Scanner) (a Access, err error) {
		var (
			role, status           string
			revoked, idle, expires sql.NullInt64
		)
		if err := row.Scan(&a.id, &a.userID, &role, &status, &revoked, &a.why, &idle, &expires); err != nil {
			return a, err
		}

		passed := func(t sql.NullInt64) bool { return t.Valid && !now.Before(db.Time(t.Int64)) }
		a.disabled = status != Active
		a.revoked = revoked.Valid
		a.expired = passed(idle) || passed(expires)
		a.role = rbac.Role(role)
		return a, a.role.Check()
	}, `SELECT s.id, m.id, m.role, m.status, s.revoked_at, COALESCE(s.revoked_why, ''), s.idle_until, s.expires_at
			FROM sessions s JOIN members m ON m.id = s.user_id AND m.tenant_id = s.tenant_id WHERE s.id IN (`+in+`)
		UNION ALL SELECT t.id, m.id, m.role, m.status, t.revoked_at, '', t.expires_at, t.expires_at
			FROM cli_tokens t JOIN members m ON m.id = t.user_id AND m.tenant_id = t.tenant_id WHERE t.id IN (`+in+`)`, args...)
	all := make(map[string]Access, len(found))
	for _, a := range found {
		all[a.id] = a
	}

	return all, err
}
