package sqlaudit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

// errMoved tells that the log has grown since the draft was made. Nothing was written.
var errMoved = errors.New("the log has moved on")

// insert writes the entries of a draft, and moves the head.
func (d dialect) insert(ctx context.Context, q querier, w *draft) error {
	if d.swap {
		return insertArrays(ctx, q, w)
	}
	return insertRows(ctx, q, w)
}

const insertColumns = `INSERT INTO audit_entries (tenant, id, created_at, category, category_pos, action, action_pos, actor,
	actor_pos, target_type, target_id, target_name, status, detail, remote_ip, user_agent, hash) `

// swapInsert moves the head if it is still where the draft begins, and only then inserts: one statement, so that a
// transaction of its own costs one round trip. Each array is a column, in the text form that any driver can send. They
// are unnested in step, which is cheaper than unnest of them all.
const swapInsert = `WITH head AS (
	UPDATE audit_heads SET id = $1, hash = $2, at = $3 WHERE tenant = $4 AND id = $5 AND hash = $6 AND epoch = $7 RETURNING tenant
) ` + insertColumns + `SELECT $4, unnest(CAST($8 AS text)::bigint[]), unnest(CAST($9 AS text)::bigint[]),
	unnest(CAST($10 AS text)::bigint[]), unnest(CAST($11 AS text)::bigint[]), unnest(CAST($12 AS text)::bigint[]),
	unnest(CAST($13 AS text)::bigint[]), unnest(CAST($14 AS text)::bigint[]), unnest(CAST($15 AS text)::bigint[]),
	unnest(CAST($16 AS text)::text[]), unnest(CAST($17 AS text)::text[]), unnest(CAST($18 AS text)::text[]),
	unnest(CAST($19 AS text)::text[]), unnest(CAST($20 AS text)::text[]), unnest(CAST($21 AS text)::text[]),
	unnest(CAST($22 AS text)::text[]), unnest(CAST($23 AS text)::bytea[])
WHERE EXISTS (SELECT FROM head)`

// columns is what swapInsert takes.
type columns [16]array

func (c *columns) add(r *row) {
	c[0].number(signed(r.ID))
	c[1].number(r.CreatedAt.UnixMicro())
	for j := range r.key {
		c[2+2*j].number(r.key[j])
		c[3+2*j].number(r.pos[j])
	}
	c[8].text(r.TargetType)
	c[9].text(r.TargetID)
	c[10].text(r.TargetName)
	c[11].text(string(r.Status))
	if r.Detail == nil {
		c[12].null()
	} else {
		c[12].text(string(r.Detail))
	}
	c[13].text(r.RemoteIP)
	c[14].text(r.UserAgent)
	c[15].bytes(r.Hash)
}

func insertArrays(ctx context.Context, q querier, w *draft) error {
	c := w.chain
	args := make([]any, 0, 7+len(w.columns))
	args = append(args, signed(w.head.ID), w.head.Hash, w.head.CreatedAt.UnixMicro(), c.tenant,
		signed(w.from.ID), hashOf(w.from), c.epoch)
	for i := range w.columns {
		args = append(args, w.columns[i].end())
	}
	done, err := q.ExecContext(ctx, swapInsert, args...)
	if err != nil {
		return fmt.Errorf("insert entries: %w", err)
	}
	n, err := done.RowsAffected()
	switch {
	case err != nil:
		return fmt.Errorf("insert entries: %w", err)
	case n == 0:
		return errMoved
	case n != int64(len(w.rows)):
		return fmt.Errorf("insert entries: %d of %d rows", n, len(w.rows))
	}
	return nil
}

// array writes an array as PostgreSQL reads it.
type array struct{ strings.Builder }

func (a *array) next() {
	if a.Len() == 0 {
		a.WriteByte('{')
	} else {
		a.WriteByte(',')
	}
}

func (a *array) number(n int64) {
	a.next()
	var b [20]byte
	a.Write(strconv.AppendInt(b[:0], n, 10))
}

func (a *array) null() {
	a.next()
	a.WriteString("NULL")
}

func (a *array) text(s string) {
	a.next()
	a.WriteByte('"')
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			break
		}
		a.WriteString(s[:i])
		a.WriteByte('\\')
		a.WriteByte(s[i])
		s = s[i+1:]
	}
	a.WriteString(s)
	a.WriteByte('"')
}

func (a *array) bytes(b []byte) {
	a.next()
	a.WriteString(`"\\x`)
	var text [64]byte
	for len(b) > 0 {
		n := min(len(b), len(text)/2)
		a.Write(hex.AppendEncode(text[:0], b[:n]))
		b = b[n:]
	}
	a.WriteByte('"')
}

func (a *array) end() string {
	a.WriteByte('}')
	return a.String()
}

// chunk is how many rows one statement of insertRows takes at most. SQLite allows 32,766 parameters.
const chunk = 64

func insertRows(ctx context.Context, q querier, w *draft) error {
	c := w.chain
	args := make([]any, 0, chunk*17)
	for rest := w.rows; len(rest) > 0; {
		n := 1
		for n < chunk && 2*n <= len(rest) { // powers of two, so that there are few texts
			n *= 2
		}
		args = args[:0]
		for i := range rest[:n] {
			args = rest[i].appendArgs(args, c.tenant)
		}
		if _, err := q.ExecContext(ctx, valuesInsert(n), args...); err != nil {
			return fmt.Errorf("insert entries: %w", err)
		}
		rest = rest[n:]
	}
	_, err := q.ExecContext(ctx, "UPDATE audit_heads SET id = $1, hash = $2, at = $3 WHERE tenant = $4",
		signed(w.head.ID), w.head.Hash, w.head.CreatedAt.UnixMicro(), c.tenant)
	if err != nil {
		return fmt.Errorf("move head: %w", err)
	}
	return nil
}

func valuesInsert(n int) string {
	const values = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	return insertColumns + "VALUES " + values + strings.Repeat(", "+values, n-1)
}

func (r *row) appendArgs(args []any, tenant int64) []any {
	var detail any
	if r.Detail != nil {
		detail = string(r.Detail)
	}
	return append(args, tenant, signed(r.ID), r.CreatedAt.UnixMicro(), r.key[0], r.pos[0], r.key[1], r.pos[1], r.key[2], r.pos[2],
		r.TargetType, r.TargetID, r.TargetName, string(r.Status), detail, r.RemoteIP, r.UserAgent, r.Hash)
}

// hashOf is never NULL.
func hashOf(h auditlog.Head) []byte {
	if h.Hash == nil {
		return []byte{}
	}
	return h.Hash
}
