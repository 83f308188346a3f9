package chat_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	pushes "github.com/seed93082962/agenthost/hub/internal/chat/push"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// engines runs a benchmark on both engines, each with the URL of a new database.
func engines(b *testing.B, bench func(b *testing.B, database string)) {
	for engine, url := range map[string]func() string{"postgres": func() string { return pgtest.URL(b) }, "sqlite": func() string { return dbtest.SQLite(b) }} {
		b.Run(engine, func(b *testing.B) { bench(b, url()) })
	}
}

func benchEach(b *testing.B, bench func(b *testing.B, s *chat.Service)) {
	engines(b, func(b *testing.B, database string) { bench(b, benchService(b, database)) })
}

var ada = api.Caller{TenantID: "acme", UserID: "id-ada", UserName: "ada", RoleNow: rbac.Member}

// pushOf returns a push of new sessions.
func pushOf(sessions, messages int) wire.ChatPushRequest {
	in := wire.ChatPushRequest{Sessions: make([]wire.PushedSession, sessions)}
	for i := range in.Sessions {
		in.Sessions[i] = wire.PushedSession{ID: ids.New(), AgentName: "helper", CreatedAt: day1, UpdatedAt: day1, Messages: make([]wire.PushedMessage, messages)}
		for j := range messages {
			role := []string{"user", "assistant"}[j%2]
			in.Sessions[i].Messages[j] = wire.PushedMessage{ID: fmt.Sprint(j), Role: role, CreatedAt: day1, Content: []byte(`"A message of about one hundred characters, which is the usual length of a question or a short answer."`)}
		}
	}
	return in
}

func pushTo(b *testing.B, s *chat.Service) *pushes.Service {
	b.Helper()
	p, err := pushes.New(pushes.Config{Chats: s, Catalog: benchAgents{}})
	require.NoError(b, err)
	return p
}

func BenchmarkPush(b *testing.B) {
	benchEach(b, func(b *testing.B, s *chat.Service) {
		for b.Loop() {
			result, err := pushTo(b, s).Push(b.Context(), ada, pushOf(50, 20))
			require.NoError(b, err)
			require.Equal(b, 50, result.Accepted)
		}
	})
}

func BenchmarkMessagePages(b *testing.B) {
	benchEach(b, func(b *testing.B, s *chat.Service) {
		in := pushOf(1, 10_000)
		_, err := pushTo(b, s).Push(b.Context(), ada, in)
		require.NoError(b, err)
		for _, page := range []int{1, 500} {
			b.Run(fmt.Sprint("page ", page), func(b *testing.B) {
				for b.Loop() {
					list, err := s.Messages(b.Context(), ada, "helper", in.Sessions[0].ID, api.Page{Number: page, Size: 20})
					require.NoError(b, err)
					require.Len(b, list.Items, 20)
				}
			})
		}
	})
}
