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

// historyOf returns the latest messages of a session before a seq. A runtime that no longer has the
// session continues with them. Notices are not stored as a part of the text.
func historyOf(ctx context.Context, q db.Querier, in session, before int64) ([]wire.Turn, error) {
	if before <= 1 { // the first message, for which no query delays the run
		return nil, nil
	}
	rows, err := q.QueryContext(ctx, `SELECT role, text FROM chat_messages WHERE tenant_id = $1 AND session_key = $2 AND seq < $4
			AND seq >= (SELECT MIN(seq) FROM (SELECT seq, SUM(octet_length(text)) OVER (ORDER BY seq DESC) AS total FROM chat_messages
				WHERE tenant_id = $1 AND session_key = $2 AND seq >= $3 AND seq < $4) AS sizes WHERE total <= $5)
		ORDER BY seq DESC`, in.TenantID, in.Key, before-wire.MaxHistory, before, maxHistory)
	if err != nil {
		return nil, db.Wrap("read chat history", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err returns the error
	var latest []wire.Turn
	for size := 0; rows.Next(); {
		var turn wire.Turn
		if err := rows.Scan(&turn.Role, &turn.Content); err != nil {
			return nil, db.Wrap("read chat history", err)
		}
		if size += quoted(turn.Content); size > maxHistory {
			break
		}
		latest = append(latest, turn)
	}
	slices.Reverse(latest)
	return alternating(latest), db.Wrap("read chat history", rows.Err())
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
// runtime requires. Consecutive turns of one role become one. Empty turns are omitted.
func alternating(turns []wire.Turn) []wire.Turn {
	var out []wire.Turn
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
	return out[:len(out)-len(out)%2]
}
