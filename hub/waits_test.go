package hub_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// asks returns the id of a call that waits for a maintainer, in a chat of a member with the agent
// asks.
func (s *server) asks(admin, member string) string {
	s.t.Helper()
	const deployment, chats = agents + "/asks/deploy", "/api/v1/agents/asks/chat/sessions"
	s.call("POST", agents, admin, `{"name":"asks","providerId":"demo","model":"demo","tools":["Write"],"permissionMode":"default","approvers":"maintainer"}`).want(http.StatusCreated)
	s.call("POST", deployment, admin, "").want(http.StatusAccepted)
	require.Eventually(s.t, func() bool { return s.call("GET", deployment, admin, "").want(http.StatusOK)["state"] == "running" }, time.Minute, 20*time.Millisecond)
	path := chats + "/" + s.call("POST", chats, member, "").want(http.StatusCreated)["id"].(string) + "/messages"
	a := s.call("POST", path, member, `{"message":"/tool Write {\"file_path\":\"a\",\"content\":\"a\"}","inputs":["approval"]}`)
	found := regexp.MustCompile(`"pending":\[\{"id":"([^"]+)"`).FindStringSubmatch(a.text)
	require.NotNil(s.t, found, a.text)
	return found[1]
}

// What waits for the calls of an agent is dropped with it. A later agent of the name does not have
// the conversation.
func TestWhatWaitsOfADeletedAgent(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) { return runtimeWithFile(t, req) }}
		t.Cleanup(driver.Close)
		s := open(t, url, func(cfg *hub.Config) { cfg.Deployer = driver })
		admin := s.setUp()
		member := s.join(admin, "member", "meg")
		wait := waits + "/" + s.asks(admin, member)
		chat := s.call("GET", "/api/v1/agents/asks/chat/sessions", member, "").want(http.StatusOK)["items"].([]any)[0].(map[string]any)["id"].(string)
		messages := "/api/v1/agents/asks/chat/sessions/" + chat + "/messages"
		s.call("DELETE", agents+"/asks/deploy", admin, "").want(http.StatusNoContent)
		require.Eventually(t, func() bool { return s.call("DELETE", agents+"/asks", admin, "").status == http.StatusNoContent }, time.Minute, 20*time.Millisecond)
		gone := func() {
			require.Empty(t, s.call("GET", waits, admin, "").want(http.StatusOK)["items"])
			s.call("GET", wait, admin, "").wantError(http.StatusNotFound, "not_found")
			s.call("POST", wait, admin, `{"decision":"approve"}`).wantError(http.StatusNotFound, "not_found")
		}
		gone()
		answer := `{"answers":[{"id":"` + strings.TrimPrefix(wait, waits+"/") + `","decision":"approve"}]}`
		s.call("POST", messages, member, answer).wantError(http.StatusNotFound, "not_found")
		second := waits + "/" + s.asks(admin, member)
		gone = func() {
			s.call("POST", wait, admin, `{"decision":"approve"}`).wantError(http.StatusNotFound, "not_found")
		}
		gone()
		s.call("GET", second, admin, "").want(http.StatusOK)
		s.call("POST", messages, member, strings.Replace(answer, "approve", "maybe", 1)).wantError(http.StatusForbidden, "forbidden")
		require.Contains(t, s.call("POST", messages, member, `{"message":"hello"}`).text, "hub.saved")
	}, hub.Migrations()...)
}
