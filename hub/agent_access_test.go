package hub_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// For a member without access, an agent does not exist on any route of the document.
func TestAnAgentWithoutAccessDoesNotExist(t *testing.T) {
	t.Parallel()
	c := newContract(t, sqlite(t))
	admin := c.setUp()
	c.newcomer(admin, "max", "member")
	c.newcomer(admin, "mia", "maintainer")
	member, _ := c.enter("max")
	maintainer, _ := c.enter("mia")
	agent := func(access string) string {
		return `{"name":"vault","providerId":"demo","model":"demo","systemPrompt":"planted","subagents":{"r":{"description":"d","prompt":"planted"}},"access":` + access + `}`
	}
	c.ok(201, "POST", agents, admin, agent(`{"users":["Mia"]}`))
	c.ok(201, "POST", agents, admin, `{"name":"open","providerId":"demo","model":"demo"}`)
	for _, name := range []string{"vault", "open"} {
		c.ok(201, "POST", scenes, admin, `{"name":"`+name+`","agentName":"`+name+`","prompt":"p"}`)
	}
	lists := []string{agents, "/api/v1/agents", scenes, "/api/v1/scenes", "/api/v1/agents/manifest"}
	calls := func(name string) (statuses map[string]int) {
		statuses = map[string]int{}
		for operation, op := range c.operations() {
			method, path, _ := strings.Cut(operation, " ")
			if strings.Contains(path, "/agents/{name}") && strings.Contains(fmt.Sprint(op.Extensions["x-roles"]), "member") {
				path = strings.NewReplacer("{name}", name, "{id}", unknownID).Replace(path)
				statuses[method+" "+path] = c.send(method, path, member, map[string]string{"POST": `{"message":"hello"}`}[method]).status
			}
		}
		return statuses
	}
	hidden := calls("vault")
	require.Greater(t, len(hidden), 10)
	for call, status := range hidden {
		require.Equal(t, http.StatusNotFound, status, call)
	}
	require.Contains(t, calls("open"), "GET /api/v1/agents/open")
	require.Equal(t, http.StatusOK, calls("open")["GET /api/v1/agents/open"])
	for _, list := range lists {
		require.NotContains(t, c.send("GET", list, member, "").text, "vault", list)
		require.Contains(t, c.send("GET", list, member, "").text, "open", list)
		require.Contains(t, c.send("GET", list, maintainer, "").text, "vault", list)
	}
	for _, path := range []string{scenes + "/vault", "/api/v1/scenes/vault"} {
		require.Equal(t, http.StatusNotFound, c.send("GET", path, member, "").status, path)
	}
	c.ok(200, "GET", agents+"/vault", maintainer, "")

	c.ok(200, "PUT", agents+"/vault", admin, strings.Replace(agent(`{"users":["MAX"]}`), `"name":"vault",`, "", 1))
	for _, list := range lists {
		require.Contains(t, c.send("GET", list, member, "").text, "vault", list)
	}
	for _, path := range []string{agents + "/vault", "/api/v1/agents/vault", agents, "/api/v1/agents"} {
		res := c.send("GET", path, member, "")
		require.Equal(t, http.StatusOK, res.status)
		require.NotContains(t, res.text, "planted", "members see no prompts")
		require.NotContains(t, res.text, "MAX", "and not who else has access")
		require.Contains(t, c.send("GET", path, admin, "").text, "planted")
	}
	id := c.ok(201, "POST", "/api/v1/agents/vault/chat/sessions", member, `{}`)["id"].(string)
	require.Equal(t, http.StatusForbidden, c.send("GET", agents+"/vault/export", member, "").status, "an export has the prompts")

	// A user who loses the access keeps the own history, and only that.
	c.ok(200, "PUT", agents+"/vault", admin, strings.Replace(agent(`{"users":["mia"]}`), `"name":"vault",`, "", 1))
	require.Equal(t, http.StatusNotFound, c.send("GET", "/api/v1/agents/vault/chat/sessions/"+id+"/messages", member, "").status)
	for _, token := range []string{member, maintainer, admin} {
		require.Contains(t, c.send("GET", "/api/v1/admin/chat/sessions", token, "").text, id)
		c.ok(200, "GET", "/api/v1/admin/chat/sessions/"+id+"/messages", token, "")
	}
	require.Equal(t, http.StatusNoContent, c.send("DELETE", "/api/v1/admin/chat/sessions/"+id, member, "").status)
	require.NotContains(t, c.send("GET", "/api/v1/admin/chat/sessions", admin, "").text, id)
}
