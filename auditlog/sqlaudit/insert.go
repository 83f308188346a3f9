package sqlaudit

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

// execer is a database, or a transaction that writes.
type execer interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// errMoved reports that the head row has changed. Nothing was written.
var errMoved = errors.New("the head of the log has moved")

// Bounds of one INSERT statement.
const (
	maxPieceEntries = 2048
	maxPieceBytes   = 8 << 20 // of details, the only texts that may be long
)

// piece returns the number of rows that one statement inserts.
func piece(rows []row) int {
	n := 0
	for bytes := 0; n < min(len(rows), maxPieceEntries) && bytes < maxPieceBytes; n++ {
		bytes += len(rows[n].Detail)
	}
	return n
}

const insertInto = `INSERT INTO audit_entries (tenant, id, created_at, category, category_pos, action, action_pos, actor,
	actor_pos, target_type, target_id, target_name, status, detail, remote_ip, user_agent, hash) `

// insert inserts rows that follow from, and moves the head to the last of them.
func (e engine) insert(ctx context.Context, db execer, l log, from auditlog.Head, rows []row) error {
	var err error
	if e.postgres {
		err = insertArrays(ctx, db, l, from, rows)
	} else {
		err = insertRows(ctx, db, l, rows)
	}
	if err != nil {
		return fmt.Errorf("insert entries: %w", err)
	}
	return nil
}

// insertRows inserts one row at a time. The head row is locked.
func insertRows(ctx context.Context, db execer, l log, rows []row) error {
	for i := range rows {
		r := &rows[i]
		var detail any
		if r.Detail != nil {
			detail = string(r.Detail)
		}
		_, err := db.ExecContext(ctx, insertInto+"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			l.tenant, signed(r.ID), r.CreatedAt.UnixMicro(), r.key[0], r.pos[0], r.key[1], r.pos[1], r.key[2], r.pos[2],
			r.TargetType, r.TargetID, r.TargetName, string(r.Status), detail, r.RemoteIP, r.UserAgent, r.Hash)
		if err != nil {
			return err
		}
	}
	last := rows[len(rows)-1]
	_, err := db.ExecContext(ctx, "UPDATE audit_heads SET id = $1, hash = $2, at = $3 WHERE tenant = $4",
		signed(last.ID), last.Hash, last.CreatedAt.UnixMicro(), l.tenant)
	return err
}

// swapAndInsert moves the head if it has not changed, and inserts only then. One statement is one
// round trip. Each array is a column, in the text form that every driver can send. Several unnests
// in the SELECT list advance together, and are cheaper than one unnest of all arrays.
const swapAndInsert = `WITH head AS (
	UPDATE audit_heads SET id = $1, hash = $2, at = $3 WHERE tenant = $4 AND id = $5 AND hash = $6 AND epoch = $7 RETURNING tenant
) ` + insertInto + `SELECT $4, unnest(CAST($8 AS text)::bigint[]), unnest(CAST($9 AS text)::bigint[]),
	unnest(CAST($10 AS text)::bigint[]), unnest(CAST($11 AS text)::bigint[]), unnest(CAST($12 AS text)::bigint[]),
	unnest(CAST($13 AS text)::bigint[]), unnest(CAST($14 AS text)::bigint[]), unnest(CAST($15 AS text)::bigint[]),
	unnest(CAST($16 AS text)::text[]), unnest(CAST($17 AS text)::text[]), unnest(CAST($18 AS text)::text[]),
	unnest(CAST($19 AS text)::text[]), unnest(CAST($20 AS text)::text[]), unnest(CAST($21 AS text)::text[]),
	unnest(CAST($22 AS text)::text[]), unnest(CAST($23 AS text)::bytea[])
WHERE EXISTS (SELECT FROM head)`

func insertArrays(ctx context.Context, db execer, l log, from auditlog.Head, rows []row) error {
	var columns [16]array
	for i := range columns {
		columns[i] = make(array, 0, 32*len(rows))
	}
	for i := range rows {
		appendColumns(&columns, &rows[i])
	}
	last := rows[len(rows)-1]
	hash := from.Hash
	if hash == nil {
		hash = []byte{} // not NULL
	}
	args := []any{signed(last.ID), last.Hash, last.CreatedAt.UnixMicro(), l.tenant, signed(from.ID), hash, l.epoch}
	for i := range columns {
		args = append(args, string(append(columns[i], '}')))
	}
	result, err := db.ExecContext(ctx, swapAndInsert, args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	switch {
	case err != nil:
		return err
	case n == 0:
		return errMoved
	case n != int64(len(rows)):
		return fmt.Errorf("%d of %d rows", n, len(rows))
	}
	return nil
}

func appendColumns(columns *[16]array, r *row) {
	columns[0].number(signed(r.ID))
	columns[1].number(r.CreatedAt.UnixMicro())
	for j := range r.key {
		columns[2+2*j].number(r.key[j])
		columns[3+2*j].number(r.pos[j])
	}
	for j, text := range [...]string{
		8: r.TargetType, 9: r.TargetID, 10: r.TargetName, 11: string(r.Status), 12: string(r.Detail), 13: r.RemoteIP, 14: r.UserAgent,
	} {
		switch {
		case j == 12 && r.Detail == nil:
			columns[j].next("NULL")
		case j >= 8:
			columns[j].text(text)
		}
	}
	columns[15].next(`"\\x`)
	columns[15] = append(hex.AppendEncode(columns[15], r.Hash), '"')
}

// array is an array in the text form of PostgreSQL, without the closing brace.
type array []byte

func (a *array) next(element string) {
	if len(*a) == 0 {
		*a = append(*a, '{')
	} else {
		*a = append(*a, ',')
	}
	*a = append(*a, element...)
}

func (a *array) number(n int64) {
	a.next("")
	*a = strconv.AppendInt(*a, n, 10)
}

func (a *array) text(s string) {
	a.next(`"`)
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			break
		}
		*a = append(append(*a, s[:i]...), '\\', s[i])
		s = s[i+1:]
	}
	*a = append(append(*a, s...), '"')
}
