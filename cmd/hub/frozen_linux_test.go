package main_test

import (
	"database/sql"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// A hub that was suspended for longer than its lease stores nothing of its answer, whatever another
// hub has done with the chat in the meantime, and the run does not continue in the runtime.
func TestASuspendedHub(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	a := openProduct(t, "DATABASE_URL", url)
	a.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	a.deploy("guide")
	b := &product{t: t, data: a.data, path: a.path, env: a.env, token: a.token, Process: spawn(t, a.path, a.env)}
	b.until("guide", func(s map[string]any) bool { return s["state"] == "running" })
	database := dbtest.Open(t, url)
	read := func(query string, args ...any) (text string) {
		t.Helper()
		var found sql.NullString
		require.NoError(t, database.Read().QueryRowContext(t.Context(), query, args...).Scan(&found))
		return found.String
	}
	const messagesOf = `SELECT string_agg(status || ' ' || text, '|' ORDER BY seq) FROM chat_messages WHERE session_key IN (SELECT key FROM chat_sessions WHERE id = $1)`
	push := func(p *product, updated, title string) {
		const path = "/api/v1/chat/push"
		p.send(200, "POST", path, `{"sessions":[{"id":"pushed","agent_name":"guide","title":"`+title+`","created_at":"2026-01-01T00:00:00Z","updated_at":"`+updated+`",
			"messages":[{"id":"1","role":"user","content":"`+title+`","created_at":"2026-01-01T00:00:00Z"}]}]}`)
	}
	const own = "/api/v1/agents/guide/chat/sessions/"

	for name, row := range map[string]struct {
		chat string            // "" for a new one
		do   func(chat string) // while the first hub is suspended
		want func(t *testing.T, stored string)
	}{
		"deleted": {"", func(chat string) { b.send(204, "DELETE", chat, "") }, func(t *testing.T, stored string) { require.Empty(t, stored) }},
		"continued": {"", func(chat string) {
			require.Contains(t, b.send(200, "POST", chat+"/messages", `{"message":"continued"}`).text, "hub.saved")
		}, func(t *testing.T, stored string) { require.Contains(t, stored, "continued|completed ") }},
		"replaced": {own + "pushed", func(string) { push(b, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "replaced") },
			func(t *testing.T, stored string) { require.Equal(t, "completed replaced", stored) }},
	} {
		t.Run(name, func(t *testing.T) {
			chat := row.chat
			if chat == "" {
				chat = a.session("guide")
			} else {
				push(a, "2026-01-01T00:00:00Z", "first")
			}
			id := chat[strings.LastIndexByte(chat, '/')+1:]
			events, stop := a.begin(chat)
			defer stop()
			require.Eventually(t, func() bool {
				return strings.Contains(read(messagesOf, id), "partial ") && read(`SELECT text FROM chat_messages WHERE status = 'partial' AND text <> ''
					UNION ALL SELECT '' LIMIT 1`) != ""
			}, daemontest.Patience, 20*time.Millisecond)
			a.Signal(t, syscall.SIGSTOP)
			defer a.Signal(t, syscall.SIGCONT) // after a failure too
			// It is removed before its run completes, whose answer it would store.
			_, err := database.Write().ExecContext(t.Context(), `DELETE FROM hubs WHERE id IN (SELECT hub_id FROM chat_runs)`)
			require.NoError(t, err)
			row.do(chat)
			require.Eventually(t, func() bool { return read(`SELECT COUNT(*) FROM chat_runs`) == "0" }, daemontest.Patience, 20*time.Millisecond)
			before := read(messagesOf, id)
			row.want(t, before)
			if name != "deleted" { // the runtime is free, although the first hub has not closed its connection
				require.Contains(t, b.send(200, "POST", chat+"/messages", `{"message":"once more"}`).text, "hub.saved")
				before = read(messagesOf, id)
			}
			a.Signal(t, syscall.SIGCONT)
			for {
				if _, err := events.Next(); err != nil {
					break
				}
			}
			require.Equal(t, before, read(messagesOf, id))
			if name != "deleted" {
				require.Contains(t, a.send(200, "POST", chat+"/messages", `{"message":"and again"}`).text, "hub.saved")
			}
		})
	}
	kill(t, b.Process)
	a.remove("guide")
}
