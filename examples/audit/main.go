// Command audit moves money between accounts in PostgreSQL, and records each transfer in an audit
// log within the same transaction: neither is stored without the other.
//
//	go run ./examples/audit -database postgres://user:password@127.0.0.1/bank
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver pgx

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
)

// transferred is an action of the log. Its detail has exactly these fields.
var transferred = auditlog.Define[transfer]("account.transfer")

type transfer struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Cents int64  `json:"cents"`
}

func main() {
	database := flag.String("database", "", "URL of a PostgreSQL database")
	flag.Parse()
	if err := demonstrate(context.Background(), *database); err != nil {
		log.Fatal(err)
	}
}

func demonstrate(ctx context.Context, url string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, `CREATE TABLE accounts (name text PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
		INSERT INTO accounts VALUES ('ada', 500), ('bob', 0)`)
	if err := errors.Join(err, sqlaudit.Migrate(ctx, db, "postgres")); err != nil {
		return err
	}
	audit, err := sqlaudit.New(sqlaudit.Config{Write: db, Engine: "postgres"})
	if err != nil {
		return err
	}
	for _, t := range []transfer{{"ada", "bob", 300}, {"ada", "bob", 300}} { // the second one fails
		fmt.Println("transfer:", move(ctx, db, audit, t))
	}
	page, err := audit.Query(ctx, auditlog.Query{TenantID: "bank", Limit: 10})
	for _, entry := range page.Items {
		fmt.Println(entry.ID, entry.UserName, entry.Action, string(entry.Detail))
	}
	check, verifyErr := auditlog.Verify(ctx, audit, "bank")
	fmt.Println("the chain of hashes is complete:", check.OK)
	return errors.Join(err, verifyErr)
}

func move(ctx context.Context, db *sql.DB, audit *sqlaudit.Store, t transfer) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after Commit
	event := auditlog.Event{TenantID: "bank", UserID: "1", UserName: t.From, TargetType: "account", TargetID: t.To, TargetName: t.To}
	if err := audit.AppendTx(ctx, tx, transferred.Record(event, t)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE accounts SET cents = cents + CASE name WHEN $1 THEN -$3::bigint ELSE $3 END WHERE name IN ($1, $2)`, t.From, t.To, t.Cents); err != nil {
		return errors.New("the account has too little money")
	}
	return tx.Commit()
}
