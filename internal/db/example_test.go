package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/seed93082962/agenthost/internal/db"
)

// A program embeds its migrations with go:embed.
var notes = db.Series{Name: "notes", Files: fstest.MapFS{
	"sqlite/0001_notes.sql":   {Data: []byte("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")},
	"postgres/0001_notes.sql": {Data: []byte("CREATE TABLE notes (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body TEXT NOT NULL)")},
}}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	d, err := db.Open(ctx, db.Config{URL: "sqlite://" + filepath.Join(dir, "notes.db")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	if err := d.Migrate(ctx, notes); err != nil {
		fmt.Println(err)
		return
	}
	var id int64
	err = d.Tx(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "INSERT INTO notes (body) VALUES ($1) RETURNING id", "buy bread").Scan(&id)
	})
	fmt.Println(d.Engine(), id, err)
	// Output: sqlite 1 <nil>
}
