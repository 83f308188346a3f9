package usage

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

// maxRows bounds the rows of a report, which are in memory.
const maxRows = 50_000

// sumColumns are the columns of the counts that scanRow reads.
const sumColumns = `CAST(SUM(runs) AS BIGINT), CAST(SUM(input_tokens) AS BIGINT), CAST(SUM(cache_read_tokens) AS BIGINT),
	CAST(SUM(cache_write_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT), CAST(SUM(reasoning_tokens) AS BIGINT), CAST(SUM(cost) AS BIGINT)`

// scanRow reads the columns of the dimensions, the user name and sumColumns.
func scanRow(row db.Scanner) (r Row, err error) {
	var day int64
	c := &r.Counts
	err = row.Scan(&day, &r.AgentName, &r.UserID, &r.Model, &r.UserName,
		&c.Runs, &c.InputTokens, &c.CacheReadTokens, &c.CacheWriteTokens, &c.OutputTokens, &c.ReasoningTokens, &c.Cost)
	if day > 0 {
		r.Day = dateOf(day)
	}
	return r, err
}

// readRows returns the rows of a report by day, and those with the highest cost first: at most one
// more than maxRows.
func readRows(ctx context.Context, q db.Querier, tenantID string, in Query) ([]Row, error) {
	columns := []string{`0`, `''`, `''`, `''`, `''`} // day, agent, user, model, name of the user
	var groups []string
	for i, group := range []struct{ name, column string }{{ByDay, "day"}, {ByAgent, "agent_name"}, {ByUser, "user_id"}, {ByModel, "model"}} {
		if slices.Contains(in.By, group.name) {
			columns[i] = group.column
			groups = append(groups, group.column)
		}
	}
	if slices.Contains(in.By, ByUser) {
		columns[4] = `MAX(user_name)`
	}
	first, after := in.weeks()
	args := []any{tenantID, in.slice(), dayOf(in.From), first, after, dayOf(in.To), maxRows + 1}
	var filters strings.Builder
	for _, filter := range []struct{ column, value string }{{"agent_name", in.Agent}, {"user_id", in.User}, {"model", in.Model}} {
		if filter.value != "" {
			args = append(args, filter.value)
			fmt.Fprintf(&filters, " AND %s = $%d", filter.column, len(args))
		}
	}
	where := filters.String()
	rows, err := db.Collect(ctx, q, "read usage", scanRow, `SELECT `+strings.Join(columns, ", ")+`, `+sumColumns+` FROM (
			SELECT * FROM usage_days WHERE tenant_id = $1 AND slice = $2 AND day >= $3 AND day < $4`+where+`
			UNION ALL SELECT * FROM usage_weeks WHERE tenant_id = $1 AND slice = $2 AND day >= $4 AND day < $5`+where+`
			UNION ALL SELECT * FROM usage_days WHERE tenant_id = $1 AND slice = $2 AND day >= $5 AND day <= $6`+where+`
		) AS d GROUP BY `+strings.Join(groups, ", ")+` ORDER BY 1, 12 DESC, 10 DESC, 2, 3, 4 LIMIT $7`, args...)
	return append([]Row{}, rows...), err // not nil: it is an array in JSON
}

// recentModels returns up to 1,000 models of runs since a day.
func recentModels(ctx context.Context, q db.Querier, since int64) ([]string, error) {
	return db.Values[string](ctx, q, "read models", `SELECT DISTINCT model FROM usage_days WHERE slice = 'agent' AND model <> '' AND day >= $1 ORDER BY model LIMIT 1000`, since)
}

// HasData reports whether the tenant has runs.
func (s *Service) HasData(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	return db.Value[bool](ctx, tx, "read usage", `SELECT EXISTS (SELECT 1 FROM usage_runs WHERE tenant_id = $1)`, tenantID)
}
