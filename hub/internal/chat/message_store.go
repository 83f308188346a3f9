package chat

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// messageColumns are the columns that scanMessage reads, in its order.
const messageColumns = `id, seq, role, status, text, content, run_id, model, usage, aigc, notice, notice_at, error_code, error_message, started, budgets, pending, files, created_at`

func scanMessage(row db.Scanner) (message, error) {
	var (
		m            message
		usage, label string
		budgets      string
		created      int64
	)
	err := row.Scan(&m.ID, &m.Seq, &m.Role, &m.Status, &m.Text, &m.Content, &m.RunID, &m.Model, &usage, &label, &m.Notice, &m.NoticeAt,
		&m.Failure.Code, &m.Failure.Message, &m.Started, &budgets, &m.Pending, &m.Files, &created)
	if err == nil && usage != "" {
		err = json.Unmarshal([]byte(usage), &m.Usage)
	}

	if label != "" {
		m.AIGC = json.RawMessage(label)
	}

	if err == nil && budgets != "" {
		err = json.Unmarshal([]byte(budgets), &m.Budgets)
	}

	m.CreatedAt = db.Time(created)
	return m, err
}

// messagesOf returns the messages of a session after one seq, up to another: the first one, and the
// following ones while their text and content have at most maxPageBytes.
func messagesOf(ctx context.Context, q db.Querier, s session, after, upTo int64) ([]message, error) {
	return db.Collect(ctx, q, "list chat messages", scanMessage, `SELECT `+messageColumns+` FROM chat_messages
		WHERE tenant_id = $1 AND session_key = $2 AND seq > $3 AND (seq = $3 + 1 OR seq <= (SELECT MAX(seq) FROM (
			SELECT seq, SUM(octet_length(text) + octet_length(content) + octet_length(pending)) OVER (ORDER BY seq) AS total FROM chat_messages
			WHERE tenant_id = $1 AND session_key = $2 AND seq > $3 AND seq <= $4) AS sizes WHERE total <= $5))
		ORDER BY seq`, s.TenantID, s.Key, after, upTo, maxPageBytes)
}

var errContinued = wire.Conflict.New("Another message has continued the session.")

// isLast fails with errContinued unless the message with a seq is the answer of a run.
func isLast(ctx context.Context, q db.Querier, s session, seq int64, runID string) error {
	is, err := db.Value[bool](ctx, q, "read last run", `SELECT EXISTS (SELECT 1 FROM chat_messages
		WHERE tenant_id = $1 AND session_key = $2 AND seq = $3 AND run_id = $4)`, s.TenantID, s.Key, seq, runID)
	if err == nil && !is {
		err = errContinued
	}

	return err
}

// runsOf returns the runs of answers by their seqs, after one seq and up to the one after another.
func runsOf(ctx context.Context, q db.Querier, s session, after, upTo int64) (map[int64]string, error) {
	runs := map[int64]string{}
	_, err := db.Collect(ctx, q, "read runs of answers", func(row db.Scanner) (run string, err error) {
		var seq int64
		err = row.Scan(&seq, &run)
		runs[seq] = run
		return run, err
	}, `SELECT seq, run_id FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND seq > $3 AND seq <= $4`, s.TenantID, s.Key, after, upTo+1)
	return runs, err
}

// labelsOf returns the labels and notices of answers by their runs.
func labelsOf(ctx context.Context, q db.Querier, s session, runs []string) (map[string]message, error) {
	labels := map[string]message{}
	if len(runs) == 0 {
		return labels, nil
	}

	in, args := db.In([]any{s.TenantID, s.Key}, runs)
	answers, err := db.Collect(ctx, q, "read labels of answers", func(row db.Scanner) (m message, err error) {
		return m, row.Scan(&m.RunID, (*[]byte)(&m.AIGC), &m.Notice, &m.NoticeAt)
	}, `SELECT run_id, aigc, notice, notice_at FROM chat_messages
		WHERE tenant_id = $1 AND session_key = $2 AND role = 'assistant' AND run_id IN `+in, args...)
	for _, m := range answers {
		labels[m.RunID] = m
	}

	return labels, err
}

// answerOf returns the run and the place of an answer of a session. It fails with wire.NotFound for
// another message.
func answerOf(ctx context.Context, q db.Querier, s session, messageID string) (relay.AnswerRun, error) {
	run := relay.AnswerRun{
		TenantID: s.TenantID, UserID: s.UserID, UserName: s.UserName, AgentName: s.AgentName,
		SessionKey: s.Key, SessionID: s.ID, MessageID: messageID,
	}
	err := q.QueryRowContext(ctx, `SELECT answer.seq, answer.run_id, answer.aigc, sent.id FROM chat_messages AS answer
			JOIN chat_messages AS sent ON sent.session_key = answer.session_key AND sent.seq = answer.seq - 1
		WHERE answer.tenant_id = $1 AND answer.session_key = $2 AND answer.id = $3 AND answer.role = 'assistant' AND answer.run_id <> ''
		ORDER BY answer.seq DESC LIMIT 1`, s.TenantID, s.Key, messageID).
		Scan(&run.Seq, &run.ID, (*[]byte)(&run.Label), &run.UserMessageID)
	return run, db.WrapOne("find answer", err, wire.NotFound.New("There is no such answer in this session."))
}

// progress is how far an answer is stored.
type progress struct {
	Status   string // "" if it was deleted
	Size     int    // bytes of the text and the content
	Leased   bool   // the run has not ended
	Free     bool   // no hub has the run
	Followed bool   // its hub stores it for readers at others
}

// over reports whether nothing more will be stored.
func (p progress) over() bool { return p.Status != relay.StatusPartial || !p.Leased }

// place is where an answer is stored.
type place struct {
	session string
	seq     int64
}

func placeOf(r relay.AnswerRun) place { return place{r.SessionKey, r.Seq} }

// progressWidth is the number of answers of one statement.
const progressWidth = 25

// progressOf returns the progress of at most progressWidth answers.
func progressOf(ctx context.Context, q db.Querier, runs ...relay.AnswerRun) (map[place]progress, error) {
	var where strings.Builder
	var args []any
	for i, r := range runs {
		if i > 0 {
			where.WriteString(" OR ")
		}

		n := len(args)
		fmt.Fprintf(&where, "m.session_key = $%d AND m.seq = $%d AND m.id = $%d AND m.tenant_id = $%d", n+1, n+2, n+3, n+4)
		args = append(args, r.SessionKey, r.Seq, r.MessageID, r.TenantID)
	}

	all := map[place]progress{}
	_, err := db.Collect(ctx, q, "read progress of answers", func(row db.Scanner) (p progress, err error) {
		var at place
		err = row.Scan(&at.session, &at.seq, &p.Status, &p.Size, &p.Leased, &p.Free, &p.Followed)
		all[at] = p
		return p, err
	}, `SELECT m.session_key, m.seq, m.status, octet_length(m.text) + octet_length(m.content) + octet_length(m.pending), r.run_id IS NOT NULL,
			COALESCE(r.`+store.Free+`, FALSE), COALESCE(r.followed, FALSE)
		FROM chat_messages AS m LEFT JOIN chat_runs AS r ON r.run_id = m.run_id AND r.tenant_id = m.tenant_id WHERE `+where.String(), args...)
	return all, err
}

// earlier is a message that was sent before with the same clientMessageId.
type earlier struct {
	session session
	seq     int64
	runID   string // of the answer
	started bool   // the runtime may have accepted the run
}

// findSent returns the message of a clientMessageId, or nil if it was not sent. It reads no text,
// which may be long.
func findSent(ctx context.Context, q db.Querier, s session, clientID string) (*earlier, error) {
	e := &earlier{session: s}
	err := q.QueryRowContext(ctx, `SELECT answer.seq - 1, answer.run_id, answer.started FROM chat_messages AS sent
			JOIN chat_messages AS answer ON answer.session_key = sent.session_key AND answer.seq = sent.seq + 1
		WHERE sent.tenant_id = $1 AND sent.session_key = $2 AND sent.client_id = $3`, s.TenantID, s.Key, clientID).Scan(&e.seq, &e.runID, &e.started)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}

	return e, db.Wrap("find sent chat message", err)
}

// readSent returns a message that was sent before, and its answer.
func readSent(ctx context.Context, q db.Querier, e *earlier) (message, message, error) {
	var user message
	var assistant message
	for i, m := range []*message{&user, &assistant} {
		seq := e.seq + int64(i)
		found, err := messagesOf(ctx, q, e.session, seq-1, seq)
		if err != nil {
			return user, assistant, err
		}

		if len(found) == 0 { // a push has replaced it
			return user, assistant, noSession()
		}

		*m = found[0]
	}

	return user, assistant, nil
}

// insertWidth is the number of rows of one INSERT, and insertArgs that of the arguments of a row.
const (
	insertWidth = 50
	insertArgs  = 18
)

// insertMessages inserts at most insertWidth messages of a session.
func insertMessages(ctx context.Context, tx *sql.Tx, s session, messages ...message) error {
	var args []any
	for _, m := range messages {
		usage, err := usageText(m.Usage)
		if err != nil {
			return err
		}

		args = append(args, s.Key, s.TenantID, m.Seq, m.ID, sql.NullString{String: m.ClientID, Valid: m.ClientID != ""}, m.Role, m.Status,
			m.Text, m.Content, m.RunID, m.Model, usage, string(m.AIGC), m.Notice, string(m.NoticeAt), m.Started,
			db.Micros(m.CreatedAt), m.Files)
	}

	// only numbers are added
	return db.Exec(ctx, tx, "insert chat messages", `INSERT INTO chat_messages (session_key, tenant_id, seq, id, client_id, role, status,
		text, content, run_id, model, usage, aigc, notice, notice_at, started, created_at, files) VALUES `+db.Rows(1, len(messages), insertArgs), args...)
}

// insertExchanges inserts messages of users and their empty answers.
func insertExchanges(ctx context.Context, tx *sql.Tx, all []*exchange) error {
	var args []any
	for _, m := range all {
		args = append(args, m.session.Key, m.session.TenantID, m.user.Seq, m.user.ID, m.user.ClientID, m.user.Text,
			m.assistant.ID, m.assistant.RunID, string(m.assistant.AIGC), m.assistant.Notice, string(m.assistant.NoticeAt), db.Micros(m.user.CreatedAt))
	}

	return db.Exec(ctx, tx, "insert chat messages", `WITH sent (key, tenant, seq, id, client, text, answer, run, aigc, notice, notice_at, at) AS `+
		db.Table(1, len(all), "TEXT", "TEXT", "BIGINT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "TEXT", "BIGINT")+`
		INSERT INTO chat_messages (session_key, tenant_id, seq, id, client_id, role, status, text, run_id, aigc, notice, notice_at, started, created_at)
		SELECT key, tenant, seq, id, NULLIF(client, ''), 'user', 'completed', text, '', '', '', '', FALSE, at FROM sent
		UNION ALL SELECT key, tenant, seq + 1, answer, NULL, 'assistant', 'partial', '', run, aigc, notice, notice_at, FALSE, at FROM sent`, args...)
}

func usageText(u *runtimewire.Usage) (string, error) {
	if u == nil {
		return "", nil
	}

	text, err := json.Marshal(u)
	return string(text), err
}

// restartAnswer makes a failed answer whose run never started one in progress again.
func restartAnswer(ctx context.Context, tx *sql.Tx, in session, m message) error {
	return db.Exec(ctx, tx, "restart answer", `UPDATE chat_messages SET status = 'partial', error_code = '', error_message = ''
		WHERE tenant_id = $1 AND session_key = $2 AND seq = $3 AND id = $4`, in.TenantID, in.Key, m.Seq, m.ID)
}

// historyOf returns the latest messages of a session except the one with the seq and its answer,
// for a run that continues no session of the runtime. The turn is that of the last messages of the
// user if they have no answer, with which a history cannot end. Messages that no runtime
// accepted are omitted, as from a session of a runtime. Notices are not stored as a part of the
// text.
func historyOf(ctx context.Context, q db.Querier, in session, except int64) ([]runtimewire.Turn, runtimewire.Turn, error) {
	var unanswered runtimewire.Turn
	if in.Messages <= 2 { // the first message, for which no query delays the run
		return nil, unanswered, nil
	}

	rows, err := q.QueryContext(ctx, `SELECT role, text, CASE WHEN files > 0 THEN content ELSE '' END, role = 'assistant' AND status = 'failed' AND NOT started
		FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND seq <> $4 AND seq <> $4 + 1
			AND seq >= (SELECT MIN(seq) FROM (SELECT seq, SUM(octet_length(text)) OVER (ORDER BY seq DESC) AS total FROM chat_messages
				WHERE tenant_id = $1 AND session_key = $2 AND seq > $3 AND seq <> $4 AND seq <> $4 + 1) AS sizes WHERE total <= $5)
		ORDER BY seq DESC LIMIT $6`, in.TenantID, in.Key, in.Messages-runvalue.MaxHistory-2, except, relay.MaxHistory, runvalue.MaxHistory)
	if err != nil {
		return nil, unanswered, db.Wrap("read chat history", err)
	}

	defer func() { _ = rows.Close() }() // rows.Err returns the error
	var latest []runtimewire.Turn
	omitted := false // the message of the user, because of its answer
	for size := 0; rows.Next(); {
		var m message
		var neverStarted bool
		if err := rows.Scan(&m.Role, &m.Text, &m.Content, &neverStarted); err != nil {
			return nil, unanswered, db.Wrap("read chat history", err)
		}

		if neverStarted || omitted {
			omitted = neverStarted
			continue
		}

		if size += quoted(m.Text); size > relay.MaxHistory {
			break
		}

		turn := turnOf(m.Text, m.Content)
		turn.Role = m.Role
		latest = append(latest, turn)
	}

	slices.Reverse(latest)
	history, unanswered := alternating(latest)
	return history, unanswered, db.Wrap("read chat history", rows.Err())
}

// alternating returns turns that begin with the user, end with the assistant, and alternate, as a
// runtime requires, and the turn of the user after them. Consecutive turns of one role become one.
// Empty turns are omitted.
func alternating(turns []runtimewire.Turn) ([]runtimewire.Turn, runtimewire.Turn) {
	var out []runtimewire.Turn
	for _, turn := range turns {
		last := len(out) - 1
		switch {
		case strings.TrimSpace(turn.Content) == "" && len(turn.Parts) == 0, last < 0 && turn.Role != roleUser:
		case last >= 0 && out[last].Role == turn.Role:
			out[last] = join(out[last], turn)
		default:
			out = append(out, turn)
		}
	}

	if last := len(out) - 1; last >= 0 && out[last].Role == roleUser {
		return out[:last], out[last]
	}

	return out, runtimewire.Turn{}
}
