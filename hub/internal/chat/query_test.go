package chat_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// The parameters of a query are checked, and the response names the invalid ones.
func TestParametersOfSessions(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		boss := s.As("acme", "max", rbac.Admin)
		long := strings.Repeat("é", 200)
		const text = "must be UTF-8 of at most 200 characters"
		const at = "must be a time in the form of RFC 3339, such as 2006-01-02T15:04:05Z"
		for _, row := range []struct{ name, value, want string }{
			{"agent", long, ""}, {"agent", long + "é", text}, {"agent", "a\x00", text}, {"agent", "a\xff", text}, {"agent", "\x01", ""},
			{"user", long, ""}, {"user", long + "é", text}, {"user", "\x01", ""},
			{"source", "hub", ""}, {"source", "push", ""}, {"source", "api", ""}, {"source", "mail", "must be hub, push or api"},
			{"from", "2026-01-02T03:04:05+08:00", ""}, {"from", "2026-01-02", at}, {"to", "1", at},
		} {
			query := "?" + row.name + "=" + url.QueryEscape(row.value)
			if row.want == "" {
				require.Empty(t, boss.Get(admin+query).Items())
				continue
			}
			fault := boss.Get(admin+query).Error(http.StatusBadRequest, wire.InvalidRequest)
			require.Equal(t, object{row.name: row.want}, fault["data"].(object)["fields"])
		}
		ada := s.ada()
		path := session(ada)
		everyone := strings.Replace(path, sessions, admin, 1)
		for _, query := range []string{"user=%ff", "user=%00", "user=%zz", "user=a;b"} {
			for _, list := range []string{admin, everyone, everyone + "/messages", everyone + "/transcript"} {
				ada.Get(list+"?"+query).Error(http.StatusBadRequest, wire.InvalidRequest)
			}
			ada.Delete(everyone+"?"+query).Error(http.StatusBadRequest, wire.InvalidRequest)
		}
		ada.Get(everyone+"?user=%01").Error(http.StatusNotFound, wire.NotFound)
		ada.Get(path + "/messages?cursor=4503599627370495").Want(http.StatusOK)
	})
}

// Each message is a run, and an upload stores megabytes, so that the routes are rated, in contrast
// to those that read the database or change a row.
func TestRatedRoutes(t *testing.T) {
	t.Parallel()
	var rated []string
	for _, route := range open(t, sqlite(t)).service.Routes() {
		if route.Rated {
			rated = append(rated, route.Method+" "+route.Path)
		}
	}
	require.Equal(t, []string{
		"POST /api/v1/approvals/:id", "POST /api/v1/agents/:name/chat/sessions/:id/messages", "POST /api/v1/agents/:name/chat/uploads",
	}, rated)
}

// A caller without a role, a user or a tenant has no sessions, also without HTTP.
func TestCallersWithoutSessions(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		denied := rbac.AdminRead.Check(api.Caller{})
		for name, row := range map[string]struct {
			caller api.Caller
			want   error
		}{
			"role":   {api.Caller{TenantID: "acme", UserID: "id-ada"}, denied},
			"user":   {api.Caller{TenantID: "acme", RoleNow: rbac.Admin}, wire.Unauthenticated},
			"tenant": {api.Caller{UserID: "id-ada", RoleNow: rbac.Admin}, wire.Unauthenticated},
		} {
			for call, do := range map[string]func(context.Context, api.Caller) error{
				"Sessions": func(ctx context.Context, c api.Caller) error {
					_, err := s.service.Sessions(ctx, c, "helper", api.Page{Number: 1, Size: 1})
					return err
				},
				"CreateSession": func(ctx context.Context, c api.Caller) error {
					_, err := s.service.CreateSession(ctx, c, "helper", bodies.ChatSessionRequest{})
					return err
				},
				"AllSessions": func(ctx context.Context, c api.Caller) error {
					_, err := s.service.AllSessions(ctx, c, chat.Filter{}, api.Page{Number: 1, Size: 1})
					return err
				},
				"AnySession": func(ctx context.Context, c api.Caller) error {
					_, err := s.service.AnySession(ctx, c, "1", "")
					return err
				},
				"DeleteAnySession": func(ctx context.Context, c api.Caller) error { return s.service.DeleteAnySession(ctx, c, "1", "") },
			} {
				require.Equal(t, row.want, do(t.Context(), row.caller), "%s without a %s", call, name)
			}
		}
	})
}

// A message and its id have limits, which a caller without HTTP has too.
func TestLimitsOfMessages(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		ada.Post(sessions, object{"title": strings.Repeat("é", 200)}).Want(http.StatusCreated)
		path := session(ada)
		id := path[len(sessions)+1:]
		for text, want := range map[string]string{"a\x00b": "must be UTF-8 without NUL", "a\xff": "must be UTF-8 without NUL", "\t": "must not be empty"} {
			_, _, err := s.service.Send(t.Context(), ada.Caller, "helper", id, wire.ChatMessageRequest{Message: text})
			require.Equal(t, api.Fields{"message": want}, err)
		}
		require.Empty(t, messages(ada, path))
		message := object{"message": "hello", "clientMessageId": strings.Repeat("é", 128)}
		require.Equal(t, "completed", last(send(t, ada, path, message).rest()))
		require.Equal(t, "completed", ada.Post(path+"/messages", message).Want(http.StatusOK)["status"])
		answer, sent, err := s.service.Send(t.Context(), ada.Caller, "helper", id, wire.ChatMessageRequest{Message: "again", ClientMessageID: strings.Repeat("é", 128)})
		require.NoError(t, err)
		require.Nil(t, answer)
		require.Equal(t, []string{"hello", "completed", "completed"}, []string{sent.UserMessage.Text, sent.AssistantMessage.Status, sent.Status})
	})
}
