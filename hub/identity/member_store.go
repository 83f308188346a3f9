package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/rbac"
)

// memberColumns are the columns that scanMember reads, in its order. The query names the table m.
const memberColumns = `m.id, m.tenant_id, m.username, m.display_name, m.email, m.role, m.status, m.auth_source, COALESCE(m.issuer, ''), COALESCE(m.subject, ''),
	m.password_hash, m.password_changed_at, m.must_change, m.last_login_at, m.created_at, m.updated_at`

// scanMember reads memberColumns, and the columns after them into more.
func scanMember(row db.Scanner, more ...any) (member, error) {
	var (
		m                 member
		role              string
		changed, login    sql.NullInt64
		created, modified int64
	)
	err := row.Scan(append([]any{&m.ID, &m.TenantID, &m.Username, &m.DisplayName, &m.Email, &role, &m.Status, &m.AuthSource, &m.Issuer, &m.Subject,
		&m.PasswordHash, &changed, &m.MustChange, &login, &created, &modified}, more...)...)
	if err != nil {
		return member{}, err
	}
	if m.Role, err = rbac.ParseRole(role); err != nil {
		return member{}, fmt.Errorf("read role of member %s: %w", m.ID, err)
	}
	m.PasswordChangedAt, m.LastLoginAt = db.NullTime(changed), db.NullTime(login)
	m.CreatedAt, m.UpdatedAt = db.Time(created), db.Time(modified)
	return m, nil
}

// insertMember stores a new member. A name that is taken is a db.UniqueViolation.
func insertMember(ctx context.Context, q db.Querier, m member) error {
	_, err := q.ExecContext(ctx, `INSERT INTO members (id, tenant_id, username, username_fold, display_name, email, role, status,
			auth_source, issuer, subject, password_hash, password_changed_at, must_change, last_login_at, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
		m.ID, m.TenantID, m.Username, foldUsername(m.Username), m.DisplayName, m.Email, string(m.Role), m.Status,
		m.AuthSource, nullText(m.Issuer), nullText(m.Subject), m.PasswordHash, db.NullMicros(m.PasswordChangedAt), m.MustChange, db.NullMicros(m.LastLoginAt),
		db.Micros(m.CreatedAt), db.Micros(m.UpdatedAt))
	return db.Wrap("insert member", err)
}

// nullText stores the empty text as NULL.
func nullText(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// memberByID also returns errNoMember for a member of another tenant.
func memberByID(ctx context.Context, q db.Querier, tenantID, id string) (member, error) {
	return oneMember(q.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 AND m.id = $2`, tenantID, id))
}

// memberByName finds a username in any letter case.
func memberByName(ctx context.Context, q db.Querier, tenantID, username string) (member, error) {
	return oneMember(q.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 AND m.username_fold = $2`,
		tenantID, foldUsername(username)))
}

func oneMember(row db.Scanner) (member, error) {
	m, err := scanMember(row)
	if errors.Is(err, sql.ErrNoRows) {
		return member{}, errNoMember
	}
	return m, db.Wrap("read member", err)
}

// lockTenant makes the transaction wait for all others that may remove the tenant's last admin.
// Call it before reading rows that the decision depends on.
func lockTenant(ctx context.Context, tx *sql.Tx, tenantID string) error {
	_, err := tx.ExecContext(ctx, `UPDATE tenants SET version = version + 1 WHERE id = $1`, tenantID)
	return db.Wrap("lock tenant", err)
}

// activeAdmins counts the admins who can sign in in the mode of the hub.
func (s *Service) activeAdmins(ctx context.Context, tx *store.Tx, tenantID string) (n int, err error) {
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM members WHERE tenant_id = $1 AND role = $2 AND status = $3 AND auth_source = $4`,
		tenantID, string(rbac.Admin), statusActive, s.source()).Scan(&n)
	return n, db.Wrap("count admins", err)
}

// setPassword stores the hash of a new password. must states whether the user must change it.
func setPassword(ctx context.Context, tx *store.Tx, m member, hash string, must bool, now time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE members SET password_hash = $1, password_changed_at = $2, must_change = $3, updated_at = $2
		WHERE tenant_id = $4 AND id = $5`, hash, db.Micros(now), must, m.TenantID, m.ID)
	return db.Wrap("update member", err)
}

// updateLogin records a login and stores the hash of the password. It reports false if the password
// or the status has changed since m was read. The row is then locked until the transaction ends.
func updateLogin(ctx context.Context, tx *store.Tx, m member, hash string, now time.Time) (bool, error) {
	n, err := db.Affected(ctx, tx, "update member", `UPDATE members SET last_login_at = $1, password_hash = $2
		WHERE tenant_id = $3 AND id = $4 AND password_hash = $5 AND status = $6`,
		db.Micros(now), hash, m.TenantID, m.ID, m.PasswordHash, statusActive)
	return n > 0, err
}

// changePassword stores the hash of a password that the user chose. It reports false if the
// password or the status has changed since m was read.
func changePassword(ctx context.Context, tx *store.Tx, m member, hash string, now time.Time) (bool, error) {
	n, err := db.Affected(ctx, tx, "update member", `UPDATE members SET password_hash = $1, password_changed_at = $2, must_change = FALSE, updated_at = $2
		WHERE tenant_id = $3 AND id = $4 AND password_hash = $5 AND status = $6`,
		hash, db.Micros(now), m.TenantID, m.ID, m.PasswordHash, statusActive)
	return n > 0, err
}
