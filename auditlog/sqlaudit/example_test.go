package sqlaudit_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
)

// The program imports a driver, such as modernc.org/sqlite, whose name is sqlite.
func Example() {
	dir, err := os.MkdirTemp("", "audit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := changeRole(context.Background(), filepath.Join(dir, "audit.db")); err != nil {
		fmt.Println(err)
	}
}

// changeRole records a change in the transaction that makes it.
func changeRole(ctx context.Context, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := sqlaudit.Migrate(ctx, db, "sqlite"); err != nil {
		return err
	}
	store, err := sqlaudit.New(sqlaudit.Config{Write: db, Engine: "sqlite"})
	if err != nil {
		return err
	}

	type roleChange struct {
		Role auditlog.Change[string] `json:"role"`
	}
	updateRole := auditlog.Define[roleChange]("user.update_role")
	alice := auditlog.Event{TenantID: "acme", UserID: "1", UserName: "alice", TargetType: "user", TargetID: "2"}

	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	// The change itself is made here.
	if err := store.AppendTx(ctx, tx, updateRole.Record(alice,
		roleChange{auditlog.Change[string]{From: "member", To: "admin"}})); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}

	page, err := store.Query(ctx, auditlog.Query{TenantID: "acme", Filter: auditlog.Filter{User: "ALI"}, Limit: 20})
	if err != nil {
		return err
	}
	for _, e := range page.Items {
		fmt.Println(e.ID, e.Action, string(e.Detail))
	}
	found, err := auditlog.Verify(ctx, store, "acme")
	fmt.Println(found.OK, found.HeadID)
	return err
}
