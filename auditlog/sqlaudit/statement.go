package sqlaudit

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

// statement is a text with its parameters.
type statement struct {
	strings.Builder
	args []any
}

func (s *statement) add(parts ...string) {
	for _, p := range parts {
		s.WriteString(p)
	}
}

// arg adds a parameter, and gives its name.
func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

func timed(f auditlog.Filter) bool { return !f.From.IsZero() || !f.To.IsZero() }

// head begins with h: the head of the log, and the ids above lo and up to hi that the query is about.
func (s *statement) head(q auditlog.Query, view int64) {
	tenant, hi := s.arg(q.TenantID), s.arg(view)
	const row = "SELECT tenant, id, floor_id AS lo, CASE WHEN id < %[2]s THEN id ELSE %[2]s END AS hi%[3]s FROM audit_heads WHERE name = %[1]s"
	if !timed(q.Filter) {
		s.add("WITH h AS MATERIALIZED (", fmt.Sprintf(row, tenant, hi, ""), ")")
		return
	}
	from, to := q.Micros()
	times := ", CAST(" + s.arg(max(from, math.MinInt64+1)-1) + " AS BIGINT) AS before, CAST(" + s.arg(to) + " AS BIGINT) AS until"
	s.add("WITH log AS MATERIALIZED (", fmt.Sprintf(row, tenant, hi, times), "), ", between, `, h AS MATERIALIZED (
		SELECT tenant, id, CASE WHEN first > lo THEN first ELSE lo END AS lo, CASE WHEN last < hi THEN last ELSE hi END AS hi FROM ids)`)
}

// between turns the times of log, a row, into ids: the last entries at or before them. Such an entry stands among the
// sixteen from the last milestone on. Times are columns because SQLite, once it has statistics, would compile the statement
// anew for each value of a parameter.
const between = `marks AS MATERIALIZED (SELECT log.*,
		COALESCE((SELECT e.id FROM audit_entries e WHERE e.tenant = log.tenant AND e.id % 16 = 0 AND e.created_at <= log.before
			ORDER BY e.created_at DESC, e.id DESC LIMIT 1), log.lo) AS mark_lo,
		COALESCE((SELECT e.id FROM audit_entries e WHERE e.tenant = log.tenant AND e.id % 16 = 0 AND e.created_at <= log.until
			ORDER BY e.created_at DESC, e.id DESC LIMIT 1), log.lo) AS mark_hi
		FROM log), ids AS MATERIALIZED (SELECT marks.*,
		COALESCE((SELECT e.id FROM audit_entries e WHERE e.tenant = marks.tenant AND e.created_at <= marks.before
			AND e.id >= mark_lo AND e.id <= mark_lo + 16 ORDER BY e.id DESC LIMIT 1), marks.lo) AS first,
		COALESCE((SELECT e.id FROM audit_entries e WHERE e.tenant = marks.tenant AND e.created_at <= marks.until
			AND e.id >= mark_hi AND e.id <= mark_hi + 16 ORDER BY e.id DESC LIMIT 1), marks.lo) AS last
		FROM marks)`

const answerColumns = `, e.id, e.created_at, e.category, e.action, e.actor, e.target_type, e.target_id, e.target_name, e.status,
	e.detail, e.remote_ip, e.user_agent, e.hash FROM audit_entries e WHERE `

// all ends with all entries. Here and in key nothing is said of lo: a lower bound misleads PostgreSQL, and the count tells
// how many of the rows belong to the page.
func (s *statement) all(offset int64) {
	s.add(" SELECT (SELECT id FROM h), (SELECT lo FROM h), (SELECT hi FROM h), e.id", answerColumns, "e.tenant = (SELECT tenant FROM h) AND ",
		"e.id <= (SELECT hi FROM h) - ", s.arg(offset), " ORDER BY e.id DESC")
}

// key ends with those that have a key in a column, whose positions at lo and hi k has.
func (s *statement) key(column string, n keyName, offset int64, timed bool) {
	rank := func(id string) string {
		return "COALESCE((SELECT e.$c_pos FROM audit_entries e WHERE e.$c = k.key AND e.id <= " + id + " ORDER BY e.id DESC LIMIT 1), k.floor)"
	}
	first := "k.floor"
	if timed {
		first = rank("h.lo")
	}
	text := ", k AS MATERIALIZED (SELECT k.key, h.id, h.hi, " + first + " AS first, " + rank("h.hi") +
		" AS last FROM h JOIN audit_keys k ON k.tenant = h.tenant AND k.digest = " + s.arg(n.digest()) + ")" +
		" SELECT (SELECT id FROM k), (SELECT first FROM k), (SELECT last FROM k), e.$c_pos" + answerColumns +
		"e.$c = (SELECT key FROM k) AND "
	if offset == 0 {
		text += "e.id <= (SELECT hi FROM k)"
	} else {
		// From the next milestone at or above the position it is at most fifteen entries down to it.
		pos := "(SELECT last FROM k) - " + s.arg(offset)
		text += "e.$c_pos <= " + pos + " AND e.id <= COALESCE((SELECT m.id FROM audit_entries m WHERE m.$c = (SELECT key FROM k)" +
			" AND m.$c_pos % 16 = 0 AND m.$c_pos >= " + pos + " AND m.id <= (SELECT hi FROM k) ORDER BY m.$c_pos LIMIT 1), (SELECT hi FROM k))"
	}
	s.add(strings.ReplaceAll(text, "$c", column), " ORDER BY e.id DESC")
}
