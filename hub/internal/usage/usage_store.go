package usage

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
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
				c.InputTokens, c.CacheReadTokens, c.CacheWriteTokens, c.OutputTokens, c.ReasoningTokens, int64(c.Cost), c.Estimates, p.run.Unreported && c.Runs > 0)
		}

		ids, err := db.Collect(ctx, tx, "insert usage of runs", func(row db.Scanner) (id partID, err error) {
			return id, row.Scan(&id.tenantID, &id.runID, &id.model)
		}, `INSERT INTO usage_runs (tenant_id, run_id, model, agent_name, user_id, ended_at,
				input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost, estimates, unreported)
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

// findRuns returns the runs that are counted, without a model, and whether they were unreported.
func findRuns(ctx context.Context, tx *sql.Tx, runs []CountedRun) (map[partID]bool, error) {
	found := map[partID]bool{}
	for some := range slices.Chunk(runs, insertWidth) {
		var args []any
		for _, r := range some {
			args = append(args, r.TenantID, r.ID)
		}

		_, err := db.Collect(ctx, tx, "find counted runs", func(row db.Scanner) (id partID, err error) {
			var unreported bool
			err = row.Scan(&id.tenantID, &id.runID, &unreported)
			found[id] = found[id] || unreported
			return id, err
		}, `SELECT tenant_id, run_id, unreported FROM usage_runs WHERE (tenant_id, run_id) IN (VALUES `+db.Rows(1, len(some), 2)+`)`, args...)
		if err != nil {
			return nil, err
		}
	}

	return found, nil
}

// deleteRun deletes what a run counted, and returns it.
func deleteRun(ctx context.Context, tx *sql.Tx, r CountedRun) ([]part, error) {
	return db.Collect(ctx, tx, "delete usage of run", func(row db.Scanner) (part, error) {
		p := part{run: r}
		var ended int64
		var unreported bool
		c := &p.counts
		err := row.Scan(&p.model, &ended, &unreported,
			&c.InputTokens, &c.CacheReadTokens, &c.CacheWriteTokens, &c.OutputTokens, &c.ReasoningTokens, &c.Cost, &c.Estimates)
		p.day = dayOf(db.Time(ended))
		if unreported { // the part of the agent's model
			c.Runs = 1
		}

		return p, err
	}, `DELETE FROM usage_runs WHERE tenant_id = $1 AND run_id = $2 RETURNING model, ended_at, unreported,
		input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost, estimates`, r.TenantID, r.ID)
}

// countColumns are the columns of sums, in the order of fieldsOf.
var countColumns = []string{
	"runs", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost", "estimates",
}

// added sets the sums of a row d to those with the excluded row, up to maxSum.
var added = eachCount(func(column string) string {
	return fmt.Sprintf(`%[1]s = CASE WHEN d.%[1]s > %[2]d - excluded.%[1]s THEN %[2]d ELSE d.%[1]s + excluded.%[1]s END`, column, int64(maxSum))
})

// eachCount returns a list with an element for each count.
func eachCount(of func(column string) string) string {
	var all []string
	for _, column := range countColumns {
		all = append(all, of(column))
	}

	return strings.Join(all, ", ")
}

// sumOf is an expression for the sum of a number up to maxSum. SQLite fails with a larger sum of
// integers than has 64 bits: the upper and the lower digits have sums of their own.
func sumOf(number string) string {
	return fmt.Sprintf(`CAST(CASE WHEN COALESCE(SUM((%[1]s) / %[2]d), 0) >= %[2]d THEN %[3]d
		ELSE COALESCE(SUM((%[1]s) / %[2]d) * %[2]d + SUM((%[1]s) %% %[2]d), 0) END AS BIGINT)`, number, 1_000_000_000, int64(maxSum))
}

// addSums adds to the sums of a table in the order of their keys: concurrent transactions lock them
// in the same order.
func addSums(ctx context.Context, tx *sql.Tx, table string, sums map[key]sum) error {
	for keys := range slices.Chunk(slices.SortedFunc(maps.Keys(sums), key.compare), insertWidth) {
		var args []any
		for _, k := range keys {
			c := sums[k].counts
			args = append(args, k.tenantID, k.slice, k.day, k.agentName, k.userID, k.model, sums[k].userName)
			for _, n := range fieldsOf(&c) {
				args = append(args, *n)
			}
		}

		err := db.Exec(ctx, tx, "add usage", `INSERT INTO `+table+` AS d (tenant_id, slice, day, agent_name, user_id, model, user_name,
				`+strings.Join(countColumns, ", ")+`)
			VALUES `+db.Rows(1, len(keys), len(args)/len(keys))+`
			ON CONFLICT (tenant_id, slice, day, agent_name, user_id, model) DO UPDATE SET user_name = excluded.user_name, `+added, args...)
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
		one.counts = plus(weeks[k].counts, one.counts)
		weeks[k] = one
	}

	return weeks
}

// maxRows bounds the rows of a report.
const maxRows = 50_000

// sums has the columns of the counts that scanRow reads.
var sums = eachCount(sumOf)

// scanRow reads a number, the columns of the dimensions, the user name, and sums.
func scanRow(row db.Scanner) (numberedRow, error) {
	var day int64
	var r numberedRow
	into := []any{&r.number, &day, &r.AgentName, &r.UserID, &r.Model, &r.UserName}
	for _, n := range fieldsOf(&r.UsageCounts) {
		into = append(into, n)
	}

	err := row.Scan(into...)
	if day > 0 {
		r.Day = dateOf(day)
	}

	return r, err
}

type numberedRow struct {
	wire.UsageRow
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
		signed := eachCount(func(column string) string { return sign + column + ` AS ` + column })
		return `SELECT user_id, agent_name, model, day, ` + signed + ` FROM ` + table + ` WHERE tenant_id = $1 AND slice = $2 AND ` + days + filters.String()
	}
	before, behind := "", ""
	if firstWeek < from {
		before = "-"
	}

	if after < afterWeeks {
		behind = "-"
	}

	var counted []string
	for _, column := range countColumns {
		counted = append(counted, sumOf(column)+` <> 0`)
	}

	used := strings.Join(counted, " OR ")
	const order = ` ORDER BY number, day, cost DESC, output_tokens DESC, agent_name, user_id, model`
	counts := strings.Join(countColumns, ", ")
	all, err := db.Collect(ctx, q, "read usage", scanRow, `WITH found (number, user_id, agent_name, model, day, `+counts+`) AS MATERIALIZED (
			SELECT 0, `+strings.Join(columns, ", ")+`, `+sums+` FROM (
				`+source("usage_days", before, "day >= $3 AND day < $4")+`
				UNION ALL `+source("usage_weeks", "", "day >= $5 AND day < $6")+`
				UNION ALL `+source("usage_days", behind, "day >= $7 AND day < $8")+`
			) AS d GROUP BY `+strings.Join(groups, ", ")+`
			HAVING `+used+`),
			page AS (SELECT number, day, agent_name, user_id, model, `+counts+` FROM found`+order+` LIMIT $10 OFFSET $11)
		SELECT number, day, agent_name, user_id, model, COALESCE((SELECT d.user_name FROM usage_days AS d
			WHERE d.tenant_id = $1 AND d.slice = 'user' AND d.user_id = page.user_id AND d.day < $9 ORDER BY d.day DESC LIMIT 1), '') AS user_name, `+counts+` FROM page
		UNION ALL SELECT CAST(COUNT(*) AS INTEGER), 0, '', '', '', '', `+sums+` FROM found`+order, args...)
	if err != nil || len(all) == 0 {
		return Report{}, err
	}

	rows := []wire.UsageRow{} // not nil: it is an array in JSON
	for _, r := range all[:len(all)-1] {
		rows = append(rows, r.UsageRow)
	}

	last := all[len(all)-1]
	return Report{List: api.List[wire.UsageRow]{Items: rows, Total: last.number}, Totals: last.UsageCounts}, nil
}

// recentModels returns up to 1,000 models of runs since a day.
func recentModels(ctx context.Context, q db.Querier, since int64) ([]string, error) {
	return db.Values[string](ctx, q, "read models", `SELECT DISTINCT model FROM usage_days WHERE slice = 'agent' AND model <> '' AND day >= $1 ORDER BY model LIMIT 1000`, since)
}

// deleteRuns deletes some rows of runs that have ended before a time, the oldest first, in a
// transaction, and returns their number.
func deleteRuns(ctx context.Context, d *db.DB, before time.Time) (int64, error) {
	var n int64
	var err error
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
