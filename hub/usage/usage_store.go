package usage

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
)

// insertWidth is the number of rows of one INSERT.
const insertWidth = 50

// insertRuns inserts the parts of runs that were not inserted before, and returns their ids.
func insertRuns(ctx context.Context, tx *sql.Tx, parts []part, now time.Time) (map[partID]bool, error) {
	inserted := map[partID]bool{}
	for some := range slices.Chunk(parts, insertWidth) {
		var args []any
		for _, p := range some {
			c := p.counts
			args = append(args, p.run.TenantID, p.run.ID, p.model, p.run.AgentName, p.run.UserID, db.Micros(now),
				c.InputTokens, c.CacheReadTokens, c.CacheWriteTokens, c.OutputTokens, c.ReasoningTokens, int64(c.Cost))
		}
		ids, err := db.Collect(ctx, tx, "insert usage of runs", func(row db.Scanner) (id partID, err error) {
			return id, row.Scan(&id.tenantID, &id.runID, &id.model)
		}, `INSERT INTO usage_runs (tenant_id, run_id, model, agent_name, user_id, ended_at,
				input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost)
			VALUES `+db.Rows(1, len(some), len(args)/len(some))+` ON CONFLICT (tenant_id, run_id, model) DO NOTHING RETURNING tenant_id, run_id, model`, args...)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			inserted[id] = true
		}
	}
	return inserted, nil
}

// addSums adds to the sums of a table in the order of their keys: concurrent transactions lock them
// in the same order.
func addSums(ctx context.Context, tx *sql.Tx, table string, sums map[key]sum) error {
	for keys := range slices.Chunk(slices.SortedFunc(maps.Keys(sums), key.compare), insertWidth) {
		var args []any
		for _, k := range keys {
			c := sums[k].counts
			args = append(args, k.tenantID, k.slice, k.day, k.agentName, k.userID, k.model, sums[k].userName,
				c.Runs, c.InputTokens, c.CacheReadTokens, c.CacheWriteTokens, c.OutputTokens, c.ReasoningTokens, int64(c.Cost))
		}
		err := db.Exec(ctx, tx, "add usage", `INSERT INTO `+table+` AS d (tenant_id, slice, day, agent_name, user_id, model, user_name,
				runs, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost)
			VALUES `+db.Rows(1, len(keys), len(args)/len(keys))+`
			ON CONFLICT (tenant_id, slice, day, agent_name, user_id, model) DO UPDATE SET user_name = excluded.user_name, runs = d.runs + excluded.runs,
				input_tokens = d.input_tokens + excluded.input_tokens, cache_read_tokens = d.cache_read_tokens + excluded.cache_read_tokens,
				cache_write_tokens = d.cache_write_tokens + excluded.cache_write_tokens, output_tokens = d.output_tokens + excluded.output_tokens,
				reasoning_tokens = d.reasoning_tokens + excluded.reasoning_tokens, cost = d.cost + excluded.cost`, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// ofWeeks returns sums of days as those of their weeks.
func ofWeeks(days map[key]sum) map[key]sum {
	weeks := make(map[key]sum, len(days))
	for k, one := range days {
		k.day -= k.day % weekDays
		weeks[k] = one // a transaction has one day
	}
	return weeks
}

// maxRows bounds the rows of a report.
const maxRows = 50_000

// sums has the columns of the counts that scanRow reads.
const sums = `COALESCE(CAST(SUM(runs) AS BIGINT), 0), COALESCE(CAST(SUM(input_tokens) AS BIGINT), 0), COALESCE(CAST(SUM(cache_read_tokens) AS BIGINT), 0),
	COALESCE(CAST(SUM(cache_write_tokens) AS BIGINT), 0), COALESCE(CAST(SUM(output_tokens) AS BIGINT), 0),
	COALESCE(CAST(SUM(reasoning_tokens) AS BIGINT), 0), COALESCE(CAST(SUM(cost) AS BIGINT), 0)`

// scanRow reads a number, the columns of the dimensions, the user name, and sums.
func scanRow(row db.Scanner) (r numberedRow, err error) {
	var day int64
	c := &r.Counts
	err = row.Scan(&r.number, &day, &r.AgentName, &r.UserID, &r.Model, &r.UserName,
		&c.Runs, &c.InputTokens, &c.CacheReadTokens, &c.CacheWriteTokens, &c.OutputTokens, &c.ReasoningTokens, &c.Cost)
	if day > 0 {
		r.Day = dateOf(day)
	}
	return r, err
}

type numberedRow struct {
	Row
	number int // of all rows for the last one, which has the totals, else 0
}

// readRows returns a part of the rows of a report, by day, and those with the highest cost first.
// The report has the totals and the number of all rows, which are in the last row of the statement:
// it reads everything at once, so that the totals are those of the rows. The range is not set.
func readRows(ctx context.Context, q db.Querier, tenantID string, in Query, limit, offset int) (Report, error) {
	columns := []string{`''`, `''`, `''`, `0`} // user, agent, model, day
	var groups []string                        // SQLite sorts by them: that with the most values is first
	for i, group := range []struct{ name, column string }{{ByUser, "user_id"}, {ByAgent, "agent_name"}, {ByModel, "model"}, {ByDay, "day"}} {
		if slices.Contains(in.By, group.name) {
			columns[i] = group.column
			groups = append(groups, group.column)
		}
	}
	from, after := dayOf(in.From), dayOf(in.To)+1
	firstWeek, afterWeeks := in.weeks()
	args := []any{
		tenantID, in.slice(), min(from, firstWeek), max(from, firstWeek), firstWeek, afterWeeks, min(after, afterWeeks), max(after, afterWeeks), after, limit, offset,
	}
	var filters strings.Builder
	for _, filter := range []struct{ column, value string }{{"agent_name", in.Agent}, {"user_id", in.User}, {"model", in.Model}} {
		if filter.value != "" {
			args = append(args, filter.value)
			fmt.Fprintf(&filters, " AND %s = $%d", filter.column, len(args))
		}
	}
	// The days between the range and the weeks are added or subtracted.
	source := func(table, sign, days string) string {
		return `SELECT user_id, agent_name, model, day, ` + sign + `runs AS runs, ` + sign + `input_tokens AS input_tokens,
			` + sign + `cache_read_tokens AS cache_read_tokens, ` + sign + `cache_write_tokens AS cache_write_tokens, ` + sign + `output_tokens AS output_tokens,
			` + sign + `reasoning_tokens AS reasoning_tokens, ` + sign + `cost AS cost
			FROM ` + table + ` WHERE tenant_id = $1 AND slice = $2 AND ` + days + filters.String()
	}
	before, behind := "", ""
	if firstWeek < from {
		before = "-"
	}
	if after < afterWeeks {
		behind = "-"
	}
	const order = ` ORDER BY number, day, cost DESC, output_tokens DESC, agent_name, user_id, model`
	const counts = `runs, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost`
	all, err := db.Collect(ctx, q, "read usage", scanRow, `WITH found (number, user_id, agent_name, model, day, `+counts+`) AS MATERIALIZED (
			SELECT 0, `+strings.Join(columns, ", ")+`, `+sums+` FROM (
				`+source("usage_days", before, "day >= $3 AND day < $4")+`
				UNION ALL `+source("usage_weeks", "", "day >= $5 AND day < $6")+`
				UNION ALL `+source("usage_days", behind, "day >= $7 AND day < $8")+`
			) AS d GROUP BY `+strings.Join(groups, ", ")+`
			HAVING SUM(runs) <> 0 OR SUM(input_tokens) <> 0 OR SUM(cache_read_tokens) <> 0 OR SUM(cache_write_tokens) <> 0 OR SUM(output_tokens) <> 0),
			page AS (SELECT number, day, agent_name, user_id, model, `+counts+` FROM found`+order+` LIMIT $10 OFFSET $11)
		SELECT number, day, agent_name, user_id, model, COALESCE((SELECT d.user_name FROM usage_days AS d
			WHERE d.tenant_id = $1 AND d.slice = 'user' AND d.user_id = page.user_id AND d.day < $9 ORDER BY d.day DESC LIMIT 1), '') AS user_name, `+counts+` FROM page
		UNION ALL SELECT CAST(COUNT(*) AS INTEGER), 0, '', '', '', '', `+sums+` FROM found`+order, args...)
	if err != nil || len(all) == 0 {
		return Report{}, err
	}
	rows := []Row{} // not nil: it is an array in JSON
	for _, r := range all[:len(all)-1] {
		rows = append(rows, r.Row)
	}
	last := all[len(all)-1]
	return Report{List: api.List[Row]{Items: rows, Total: last.number}, Totals: last.Counts}, nil
}

// recentModels returns up to 1,000 models of runs since a day.
func recentModels(ctx context.Context, q db.Querier, since int64) ([]string, error) {
	return db.Values[string](ctx, q, "read models", `SELECT DISTINCT model FROM usage_days WHERE slice = 'agent' AND model <> '' AND day >= $1 ORDER BY model LIMIT 1000`, since)
}

// deleteRuns deletes some rows of runs that have ended before a time, the oldest first, in a
// transaction, and returns their number.
func deleteRuns(ctx context.Context, d *db.DB, before time.Time) (n int64, err error) {
	err = d.Tx(ctx, func(tx *sql.Tx) error {
		n, err = db.Affected(ctx, tx, "prune usage of runs", `DELETE FROM usage_runs WHERE (tenant_id, run_id, model) IN (
			SELECT tenant_id, run_id, model FROM usage_runs WHERE ended_at < $1 ORDER BY ended_at LIMIT $2)`, db.Micros(before), pruneRows)
		return err
	})
	return n, err
}

// HasData reports whether the tenant has had runs.
func (s *Service) HasData(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	return db.Value[bool](ctx, tx, "read usage", `SELECT EXISTS (SELECT 1 FROM usage_days WHERE tenant_id = $1)`, tenantID)
}
