package relay

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// Each transaction locks the row of a session, that of its run, and then its messages, in this
// order. An answer is only stored by the hub that has its run, whose row it locks before.

// insertRun stores a run of a session whose row is locked, unless too many answers of the user or
// of the agent are in progress, in all hubs. It returns a former run that no hub has, or one
// without an id. Transactions of one user wait for each other.
func insertRun(ctx context.Context, tx *sql.Tx, r AnswerRun, relay *Relay) (usage.CountedRun, error) {
	if err := lockUser(ctx, tx, r, relay); err != nil {
		return usage.CountedRun{}, err
	}

	limits := relay.cfg
	counted := r.usage()
	var former usage.CountedRun
	for {
		inserted, err := relay.insertRuns(ctx, tx, []AnswerRun{r}, counted.Free)
		if err != nil || len(inserted) == 1 {
			return former, err
		}

		ended, err := relay.endFormer(ctx, tx, r)
		if err != nil {
			return former, err
		}

		if ended.ID != "" {
			former = ended
			continue
		}

		if limits.Usage == nil || counted.Free {
			break
		}

		if counted.Free, err = limits.Usage.Free(ctx, tx, counted); err != nil {
			return former, err
		}

		if !counted.Free {
			break
		}
	}

	running, err := InProgress(ctx, tx, r.TenantID, r.SessionKey)
	if err != nil {
		return former, err
	}

	if running {
		return former, inProgress()
	}

	return former, tooMany(ctx, tx, r, counted, limits)
}

// insertRuns stores those of some runs that have a place and a reserve after the runs before them,
// and returns their ids. free means that they cost nothing.
func (r *Relay) insertRuns(ctx context.Context, tx *sql.Tx, runs []AnswerRun, free bool) ([]string, error) {
	args := []any{r.store.HubID, r.cfg.UserAnswers, r.cfg.AgentAnswers}
	before := map[[3]string]int{}
	for _, run := range runs {
		user, agent := [3]string{"user", run.TenantID, run.UserID}, [3]string{"agent", run.TenantID, run.AgentName}
		args = append(args, run.ID, run.TenantID, run.SessionKey, run.UserID, run.AgentName, before[user], before[agent])
		before[user]++
		before[agent]++
	}

	rows := db.Table(4, len(runs), "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "BIGINT", "BIGINT")
	admitted := ""
	if r.cfg.Usage != nil {
		condition, more := r.cfg.Usage.Admitted(usage.Columns{Tenant: "next.tenant_id", Agent: "next.agent_name", User: "next.user_id"}, free,
			"COALESCE(agents.held, 0) + next.of_agent", "COALESCE(users.held, 0) + next.of_user", len(args)+1)
		admitted, args = " AND "+condition, append(args, more...)
	}

	// With a join, SQLite reads the runs of other users: it does not know how many rows next has.
	count := func(column string) string {
		return `(SELECT of.tenant_id, of.` + column + `, COUNT(*) AS held, COUNT(CASE WHEN NOT r.` + store.Free + ` THEN 1 END) AS running
			FROM (SELECT DISTINCT tenant_id, ` + column + ` FROM next) AS of CROSS JOIN chat_runs AS r
			WHERE r.tenant_id = of.tenant_id AND r.` + column + ` = of.` + column + ` GROUP BY of.tenant_id, of.` + column + `)`
	}
	return db.Values[string](ctx, tx, "insert chat runs", `WITH next (run_id, tenant_id, session_key, user_id, agent_name, of_user, of_agent) AS `+rows+`,
			users AS `+count("user_id")+`, agents AS `+count("agent_name")+`
		INSERT INTO chat_runs (run_id, tenant_id, session_key, user_id, agent_name, hub_id)
		SELECT next.run_id, next.tenant_id, next.session_key, next.user_id, next.agent_name, $1 FROM next
			LEFT JOIN users ON users.tenant_id = next.tenant_id AND users.user_id = next.user_id
			LEFT JOIN agents ON agents.tenant_id = next.tenant_id AND agents.agent_name = next.agent_name
		WHERE COALESCE(users.running, 0) + next.of_user < $2 AND COALESCE(agents.running, 0) + next.of_agent < $3`+admitted+`
		ON CONFLICT (session_key) DO NOTHING RETURNING run_id`, args...)
}

// ReserveAll stores those of some runs that can begin at once, and returns their ids, as
// [Answer.Reserve] does for one run. Their sessions and the locks of TryLock are held.
func (r *Relay) ReserveAll(ctx context.Context, tx *sql.Tx, runs []AnswerRun) ([]string, error) {
	return r.insertRuns(ctx, tx, runs, false)
}

// TryLock is a condition of SQL that takes the locks of a run as lockUser does, and holds unless
// another transaction has one of them. The arguments are expressions.
func (r *Relay) TryLock(tenantID, userID, agentName string) string {
	if r.store.DB.Engine() != db.PostgreSQL {
		return `TRUE`
	}

	unlocked := `pg_try_advisory_xact_lock(hashtext('` + lockPrefix + `' || ` + tenantID + ` || ' ' || ` + userID + `))`
	if r.cfg.Usage != nil {
		unlocked += ` AND ` + usage.Unlocked(tenantID, agentName)
	}

	return unlocked
}

const lockPrefix = "chat_runs "

func lockKey(r AnswerRun) string { return lockPrefix + r.TenantID + " " + r.UserID }

// lockUser makes transactions that begin runs of one user wait for each other, and those of the
// budgets of the run.
func lockUser(ctx context.Context, tx *sql.Tx, r AnswerRun, relay *Relay) error {
	switch {
	case relay.cfg.Usage != nil:
		return relay.cfg.Usage.Lock(ctx, tx, r.usage(), lockKey(r))
	case relay.store.DB.Engine() == db.PostgreSQL:
		return db.Exec(ctx, tx, "lock chat runs of user", `SELECT pg_advisory_xact_lock(hashtext($1))`, lockKey(r))
	}

	return nil
}

func inProgress() error {
	return wire.Conflict.New("An answer is in progress in this session: wait for its end, or cancel it.")
}

// InProgress reports whether an answer is in progress in a session whose row is locked.
func InProgress(ctx context.Context, tx *sql.Tx, tenantID, sessionKey string) (bool, error) {
	return db.Value[bool](ctx, tx, "read chat run", `SELECT EXISTS (SELECT 1 FROM chat_runs WHERE tenant_id = $1 AND session_key = $2 AND NOT `+store.Free+`)`,
		tenantID, sessionKey)
}

// SessionsInProgress returns those of the sessions with the keys in which an answer is in progress.
func SessionsInProgress(ctx context.Context, q db.Querier, tenantID string, keys []string) (map[string]bool, error) {
	all := map[string]bool{}
	if len(keys) == 0 {
		return all, nil
	}

	in, args := db.In([]any{tenantID}, keys)
	found, err := db.Values[string](ctx, q, "read sessions in progress",
		`SELECT session_key FROM chat_runs WHERE tenant_id = $1 AND session_key IN `+in+` AND NOT `+store.Free, args...)
	for _, key := range found {
		all[key] = true
	}

	return all, err
}

// SessionOf returns the key of the session of a user's run in progress, or "".
func SessionOf(ctx context.Context, q db.Querier, tenantID, userID, runID string) (string, error) {
	keys, err := db.Values[string](ctx, q, "read session of run", `SELECT session_key FROM chat_runs
		WHERE tenant_id = $1 AND user_id = $2 AND run_id = $3 AND NOT `+store.Free, tenantID, userID, runID)
	return strings.Join(keys, ""), err
}

// Followed marks runs whose answers are read at another hub: their hub stores them more often.
func Followed(ctx context.Context, q db.Querier, runs []string) error {
	in, args := db.In(nil, runs)
	return db.Exec(ctx, q, "follow chat runs", `UPDATE chat_runs SET followed = TRUE WHERE run_id IN `+in+` AND NOT followed`, args...)
}

// running has numbers of answers that hold the reserves of budgets, and of those of the user that
// are in progress. An answer that no hub has holds its reserve until it is counted.
type running struct{ heldOfAgent, heldOfUser, ofUser int }

// runningOf returns the answers of the agent and of the user of a run.
func runningOf(ctx context.Context, tx *sql.Tx, r AnswerRun) (running, error) {
	var n running
	err := tx.QueryRowContext(ctx, `SELECT COUNT(CASE WHEN agent_name = $2 THEN 1 END), COUNT(CASE WHEN user_id = $3 THEN 1 END),
			COUNT(CASE WHEN user_id = $3 AND NOT `+store.Free+` THEN 1 END)
		FROM chat_runs WHERE tenant_id = $1 AND (agent_name = $2 OR user_id = $3)`, r.TenantID, r.AgentName, r.UserID).
		Scan(&n.heldOfAgent, &n.heldOfUser, &n.ofUser)
	return n, db.Wrap("count chat runs", err)
}

// AnswersOf returns an expression of SQL for the number of answers of an agent that hold a reserve,
// in all hubs, and the arguments of its placeholders, which begin with the number next.
func AnswersOf(tenantID, agentName string, next int) (string, []any) {
	return fmt.Sprintf(`(SELECT COUNT(*) FROM chat_runs WHERE tenant_id = $%d AND agent_name = $%d)`, next, next+1), []any{tenantID, agentName}
}

// tooMany returns the error of an answer beyond a budget, or the limit of its user or of its agent.
func tooMany(ctx context.Context, tx *sql.Tx, r AnswerRun, counted usage.CountedRun, limits Config) error {
	n, err := runningOf(ctx, tx, r)
	if err == nil && limits.Usage != nil {
		err = limits.Usage.Refusal(ctx, tx, counted, n.heldOfAgent, n.heldOfUser)
	}

	if err != nil {
		return err
	}

	message := "Too many answers of the agent are in progress: send the message again later."
	if n.ofUser >= limits.UserAnswers {
		message = "Too many of your answers are in progress: wait for the end of one of them."
	}

	return &api.Refusal{Err: &wire.Error{Code: wire.RateLimited, RetryAfter: limitedFor, Message: message}, Limit: api.LimitAnswers}
}

// Lease is the row of an answer in progress.
type Lease struct {
	RunID, TenantID, SessionKey, UserID, AgentName, HubID string

	Cancel   bool
	followed bool // at another hub
	free     bool // no hub has it
}

// leaseColumns are the columns that scanLease reads, in its order.
const leaseColumns = `run_id, tenant_id, session_key, user_id, agent_name, hub_id, cancel, ` + store.Free

func scanLease(row db.Scanner) (Lease, error) {
	var l Lease
	err := row.Scan(&l.RunID, &l.TenantID, &l.SessionKey, &l.UserID, &l.AgentName, &l.HubID, &l.Cancel, &l.free)
	return l, err
}

// RunInProgress is a run with the session and the user of its answer.
type RunInProgress struct {
	Lease

	UserName, SessionID string

	StartedAt time.Time
}

// selectRuns selects runs as scanRun reads them.
const selectRuns = `SELECT r.run_id, r.tenant_id, r.session_key, s.user_id, r.agent_name, r.hub_id, r.cancel, s.user_name, s.id, s.last_message_at
	FROM chat_runs AS r JOIN chat_sessions AS s ON s.key = r.session_key AND s.tenant_id = r.tenant_id`

func scanRun(row db.Scanner) (RunInProgress, error) {
	var started sql.NullInt64
	var r RunInProgress
	err := row.Scan(&r.RunID, &r.TenantID, &r.SessionKey, &r.UserID, &r.AgentName, &r.HubID, &r.Cancel, &r.UserName, &r.SessionID, &started)
	r.StartedAt = db.NullTime(started)
	return r, err
}

// RunsOf returns a page of the runs in progress of a tenant, in all hubs, the oldest first, and the
// number of all.
func RunsOf(ctx context.Context, q db.Querier, tenantID string, page api.Page) ([]RunInProgress, int, error) {
	part := db.Page{Order: `last_message_at, run_id`, Limit: page.Size, Offset: page.Offset()}
	return db.List(ctx, q, "list chat runs", scanRun, part, selectRuns+` WHERE r.tenant_id = $1 AND NOT `+store.Free, tenantID)
}

// RequestCancel marks a run, for the hub that relays it. It fails with wire.NotFound if there is
// none with the id. After the commit, the caller calls [Relay.Requested].
func RequestCancel(ctx context.Context, tx *sql.Tx, tenantID, runID string) (RunInProgress, error) {
	err := db.Exec(ctx, tx, "cancel chat run", `UPDATE chat_runs SET cancel = TRUE WHERE tenant_id = $1 AND run_id = $2`, tenantID, runID)
	if err != nil {
		return RunInProgress{}, err
	}

	r, err := scanRun(tx.QueryRowContext(ctx, selectRuns+` WHERE r.tenant_id = $1 AND r.run_id = $2`, tenantID, runID))
	return r, db.WrapOne("read chat run", err, wire.NotFound.New("There is no answer in progress with this id of a run."))
}

// requestCancel marks the run of a session, or only one with the id, for the hub that relays it. It
// fails with wire.Conflict if there is none.
func requestCancel(ctx context.Context, q db.Querier, tenantID, sessionKey, runID string) (Lease, error) {
	l, err := scanLease(q.QueryRowContext(ctx, `UPDATE chat_runs SET cancel = TRUE
		WHERE tenant_id = $1 AND session_key = $2 AND (run_id = $3 OR $3 = '') RETURNING `+leaseColumns, tenantID, sessionKey, runID))
	return l, db.WrapOne("cancel chat run", err, wire.Conflict.New("This answer is not in progress, or none in this session is."))
}

// freeRuns returns the runs of all tenants that no hub has, and those of this hub.
func freeRuns(ctx context.Context, q db.Querier, hubID string) ([]Lease, error) {
	return db.Collect(ctx, q, "read free chat runs", scanLease,
		`SELECT `+leaseColumns+` FROM chat_runs WHERE hub_id = $1 OR `+store.Free+` ORDER BY run_id`, hubID)
}

// runsOfHub returns the runs of a hub, with what other hubs request.
func runsOfHub(ctx context.Context, q db.Querier, hubID string) (map[string]Lease, error) {
	runs := map[string]Lease{}
	_, err := db.Collect(ctx, q, "read chat runs of hub", func(row db.Scanner) (l Lease, err error) {
		err = row.Scan(&l.RunID, &l.Cancel, &l.followed)
		runs[l.RunID] = l
		return l, err
	}, `SELECT run_id, cancel, followed FROM chat_runs WHERE hub_id = $1`, hubID)
	return runs, err
}
