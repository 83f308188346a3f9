package identity

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/rbac"
)

// DefaultTenant is the one tenant of built-in mode.
const DefaultTenant = "default"

const (
	statusActive   = "active"
	statusDisabled = "disabled"
	sourceBuiltin  = "builtin"
)

// errNoMember is what the look-ups answer where there is none.
var errNoMember = errors.New("no such member")

// member is a row of the member table, the true source of roles. Zero times were never set.
type member struct {
	ID                string
	TenantID          string
	Username          string
	DisplayName       string
	Email             string
	Role              rbac.Role
	Status            string
	AuthSource        string
	PasswordHash      string
	PasswordChangedAt time.Time
	LastLoginAt       time.Time
	CreatedAt         time.Time
	UpdatedAt         time.Time
}

func (m member) active() bool { return m.Status == statusActive }

// memberColumns is what scanMember reads, in its order; m is the table's name in the query.
const memberColumns = `m.id, m.tenant_id, m.username, m.display_name, m.email, m.role, m.status, m.auth_source,
	m.password_hash, m.password_changed_at, m.last_login_at, m.created_at, m.updated_at`

// scanMember reads memberColumns, and into more what the query selects after them.
func scanMember(row scanner, more ...any) (member, error) {
	var (
		m                 member
		role              string
		changed, login    sql.NullInt64
		created, modified int64
	)
	err := row.Scan(append([]any{&m.ID, &m.TenantID, &m.Username, &m.DisplayName, &m.Email, &role, &m.Status, &m.AuthSource,
		&m.PasswordHash, &changed, &login, &created, &modified}, more...)...)
	if err != nil {
		return member{}, err
	}
	if m.Role, err = rbac.ParseRole(role); err != nil {
		return member{}, fmt.Errorf("read role of member %s: %w", m.ID, err)
	}
	m.PasswordChangedAt, m.LastLoginAt = timeOf(changed), timeOf(login)
	m.CreatedAt, m.UpdatedAt = db.Time(created), db.Time(modified)
	return m, nil
}

// insertMember stores a new member. A name that is taken is a db.UniqueViolation.
func insertMember(ctx context.Context, q querier, m member) error {
	_, err := q.ExecContext(ctx, `INSERT INTO members (id, tenant_id, username, username_fold, display_name, email, role, status,
			auth_source, password_hash, password_changed_at, last_login_at, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		m.ID, m.TenantID, m.Username, foldUsername(m.Username), m.DisplayName, m.Email, string(m.Role), m.Status,
		m.AuthSource, m.PasswordHash, microsOf(m.PasswordChangedAt), microsOf(m.LastLoginAt), db.Micros(m.CreatedAt), db.Micros(m.UpdatedAt))
	return fault("insert member", err)
}

// memberByID answers errNoMember for one of another tenant too.
func memberByID(ctx context.Context, q querier, tenantID, id string) (member, error) {
	return oneMember(q.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 AND m.id = $2`, tenantID, id))
}

// memberByName finds a username in any letter case.
func memberByName(ctx context.Context, q querier, tenantID, username string) (member, error) {
	return oneMember(q.QueryRowContext(ctx, `SELECT `+memberColumns+` FROM members m WHERE m.tenant_id = $1 AND m.username_fold = $2`,
		tenantID, foldUsername(username)))
}

func oneMember(row scanner) (member, error) {
	m, err := scanMember(row)
	if errors.Is(err, sql.ErrNoRows) {
		return member{}, errNoMember
	}
	return m, fault("read member", err)
}

// lockTenant makes the transaction wait for all others that can touch the tenant's last admin. It is taken before anything
// is read that the decision rests on.
func lockTenant(ctx context.Context, tx *sql.Tx, tenantID string) error {
	_, err := tx.ExecContext(ctx, `UPDATE tenants SET version = version + 1 WHERE id = $1`, tenantID)
	return fault("lock tenant", err)
}

func activeAdmins(ctx context.Context, tx *sql.Tx, tenantID string) (n int, err error) {
	err = tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM members WHERE tenant_id = $1 AND role = $2 AND status = $3`,
		tenantID, string(rbac.Admin), statusActive).Scan(&n)
	return n, fault("count admins", err)
}
