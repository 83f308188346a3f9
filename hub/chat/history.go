package chat

import (
	"context"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// maxHistory bounds the text of a history in bytes of JSON: a model reads no more than its context
// window, and a runtime accepts bodies of 4 MiB.
const maxHistory = 1 << 20

// historyOf returns the latest messages of a session except the one with the seq and its answer, for
// a run that continues no session of the runtime. unanswered has the last messages of the user if
// they have no answer, with which a history cannot end. Messages that no runtime accepted are
// omitted, as from a session of a runtime. Notices are not stored as a part of the text.
func historyOf(ctx context.Context, q db.Querier, in session, except int64) (history []wire.Turn, unanswered string, err error) {
	if in.Messages <= 2 { // the first message, for which no query delays the run
		return nil, "", nil
	}
	rows, err := q.QueryContext(ctx, `SELECT role, text, role = 'assistant' AND status = 'failed' AND NOT started
		FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND seq <> $4 AND seq <> $4 + 1
			AND seq >= (SELECT MIN(seq) FROM (SELECT seq, SUM(octet_length(text)) OVER (ORDER BY seq DESC) AS total FROM chat_messages
				WHERE tenant_id = $1 AND session_key = $2 AND seq > $3 AND seq <> $4 AND seq <> $4 + 1) AS sizes WHERE total <= $5)
		ORDER BY seq DESC LIMIT $6`, in.TenantID, in.Key, in.Messages-wire.MaxHistory-2, except, maxHistory, wire.MaxHistory)
	if err != nil {
		return nil, "", db.Wrap("read chat history", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	var latest []wire.Turn
	omitted := false // the message of the user, because of its answer
	for size := 0; rows.Next(); {
		var turn wire.Turn
		var neverStarted bool
		if err := rows.Scan(&turn.Role, &turn.Content, &neverStarted); err != nil {
			return nil, "", db.Wrap("read chat history", err)
		}
		if neverStarted || omitted {
			omitted = neverStarted
			continue
		}
		if size += quoted(turn.Content); size > maxHistory {
			break
		}
		latest = append(latest, turn)
	}
	slices.Reverse(latest)
	history, unanswered = alternating(latest)
	return history, unanswered, db.Wrap("read chat history", rows.Err())
}

// quoted returns the length of a text in JSON. Only U+2028 and U+2029 are longer.
func quoted(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
			n++
		case c < ' ':
			n += len(`u0000`)
		}
	}
	return n
}

// alternating returns turns that begin with the user, end with the assistant, and alternate, as a
// runtime requires, and the text of the user after them. Consecutive turns of one role become one.
// Empty turns are omitted.
func alternating(turns []wire.Turn) (out []wire.Turn, unanswered string) {
	for _, turn := range turns {
		last := len(out) - 1
		switch {
		case strings.TrimSpace(turn.Content) == "", last < 0 && turn.Role != roleUser:
		case last >= 0 && out[last].Role == turn.Role:
			out[last].Content = paragraphs(out[last].Content, turn.Content)
		default:
			out = append(out, turn)
		}
	}
	if last := len(out) - 1; last >= 0 && out[last].Role == roleUser {
		return out[:last], out[last].Content
	}
	return out, ""
}
