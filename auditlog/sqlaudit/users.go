package sqlaudit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

// users is what of a source was done by users whose name or id holds f.User. The source is the whole span, or a
// category or action of it.
func (s span) users(ctx context.Context, f auditlog.Filter, from source) (source, error) {
	part, _ := from.(*sequence)
	category := f.Category
	if f.Action != "" {
		category, _, _ = strings.Cut(f.Action, ".")
	}
	d := s.store.sql
	args := []any{s.tenant, auditlog.Fold(f.User)}
	match := "(" + fmt.Sprintf(d.contains, "u.fold_name", "$2") + " OR " + fmt.Sprintf(d.contains, "u.fold_id", "$2") + ")"
	const users, actors = "u.tenant = $1 AND u.kind = 4", "a.owner = u.key AND a.kind = 3"
	within := ""
	if category != "" {
		within = " AND a.category = (SELECT c.key FROM audit_keys c WHERE c.tenant = $1 AND c.digest = $3)"
		args = append(args, keyName{kind: kindCategory, name: category}.digest())
	}
	var other bool
	floor := s.floor
	err := s.store.read.row(ctx, "SELECT h.floor_id, EXISTS (SELECT 1 FROM audit_keys u WHERE "+users+" AND NOT "+match+
		" AND EXISTS (SELECT 1 FROM audit_keys a WHERE "+actors+within+")) FROM audit_heads h WHERE h.tenant = $1", args, &floor, &other)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find users: %w", err)
	case !other && floor == s.floor: // the filter lets all pass
		return from, nil
	case !other:
		return nil, errPruned // others may have been counted
	}
	pairs, err := s.twos(ctx, "SELECT a.key, a.floor FROM audit_keys a JOIN audit_keys u ON "+actors+
		" WHERE "+users+" AND "+match+within, args)
	if err != nil {
		return nil, fmt.Errorf("find users: %w", err)
	}
	all, err := s.actors(ctx, pairs)
	switch {
	case err != nil:
		return nil, fmt.Errorf("count users: %w", err)
	case part != nil && part.column == "action" && all.count > 0:
		return all.doing(ctx, part)
	case len(all.keys) == 1:
		last := all.lasts[0][1]
		return &sequence{span: s, column: "actor", key: all.keys[0], first: last - all.count, last: last}, nil
	}
	return all, nil
}

// find reads integers, and twos reads pairs of them.
func (s span) find(ctx context.Context, query string, args []any) (all []int64, err error) {
	rows, err := s.store.read.query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return integers(rows)
}

func integers(rows *sql.Rows) (all []int64, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

func (s span) twos(ctx context.Context, query string, args []any) (all [][2]int64, err error) {
	rows, err := s.store.read.query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p [2]int64
		if err := rows.Scan(&p[0], &p[1]); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, rows.Err()
}
