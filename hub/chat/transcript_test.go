package chat_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/api/apitest"
	"github.com/seed93082962/agenthost/hub/deploy"
)

// The owner of a chat and the admins of its organization read what happened in it. Others do not,
// and a hub without the runtime says so.
func TestTranscript(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada, root := s.ada(), s.As("acme", "max", "admin")
		path := session(ada)
		ada.Get(path+"/transcript").Error(http.StatusNotFound, api.NotFound)
		say(t, ada, path, "hello")
		say(t, ada, path, "again")
		everyone := strings.Replace(path, sessions, admin, 1)
		for _, read := range []func(query string) apitest.Object{
			func(query string) apitest.Object { return ada.Get(path + "/transcript" + query).Want(http.StatusOK) },
			func(query string) apitest.Object {
				return root.Get(everyone + "/transcript" + query).Want(http.StatusOK)
			},
		} {
			var types []string
			for query := "?page_size=2"; query != ""; {
				page := read(query)
				require.LessOrEqual(t, len(page["items"].([]any)), 2)
				for _, item := range page["items"].([]any) {
					types = append(types, item.(apitest.Object)["type"].(string))
				}
				query = ""
				if next, ok := page["next"].(string); ok {
					query = "?page_size=2&next=" + next
				}
			}
			run := []string{"event", "message", "message", "event", "event"} // init, question, answer, its tokens, the end
			require.Equal(t, append(run, run...), types)
		}
		s.As("acme", "bob", "member").Get(everyone+"/transcript").Error(http.StatusNotFound, api.NotFound)
		s.As("globex", "eve", "admin").Get(everyone+"/transcript").Error(http.StatusNotFound, api.NotFound)
		up := *s.endpoint.Load()
		s.endpoint.Store(&deploy.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
		ada.Get(path+"/transcript").Error(http.StatusBadGateway, api.UpstreamFailed)
		s.endpoint.Store(nil)
		ada.Get(path+"/transcript").Error(http.StatusConflict, api.AgentNotDeployed)
		s.endpoint.Store(&up)
		s.exec(`UPDATE chat_sessions SET runtime_session = 'lost'`)
		ada.Get(path+"/transcript").Error(http.StatusNotFound, api.NotFound)
	})
}
