package catalog_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

// DELETE of everything that has a version honors If-Match.
func TestDeleteOfAVersion(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("x")).Want(http.StatusCreated)
		for path, body := range map[string]object{
			agents: demo("a"), mcps: {"name": "a", "transport": "stdio", "command": "c"}, knowledge: {"name": "a", "datasetId": "d"},
			scenes: {"name": "a", "agentName": "x", "prompt": "p"}, providers: {"name": "a", "protocol": "openai", "apiKey": "k"},
		} {
			made := s.ada.Post(path, body).Want(http.StatusCreated)
			one := path + "/a"
			if path == providers {
				one = path + "/" + made["id"].(string)
			}
			for _, tag := range []string{`"2"`, "0", `W/"1"`, `"1", "2"`, "x"} {
				s.ada.Do(http.MethodDelete, one, nil, "If-Match", tag).Error(http.StatusPreconditionFailed, wire.PreconditionFailed)
			}
			s.ada.Get(one).Want(http.StatusOK)
			s.ada.Do(http.MethodDelete, one, nil, "If-Match", `"1"`).Want(http.StatusNoContent)
			s.ada.Get(one).Error(http.StatusNotFound, wire.NotFound)
		}
	})
}

// Errors of forms name no types of Go, and a member that occurs twice is named.
func TestErrorsOfForms(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.ada.Post(agents, demo("a")).Want(http.StatusCreated)
		const form = `{"name":"b","providerId":"demo","model":"m",`
		for body, field := range map[string]string{
			form + `"access":[]}`:                                           "access",
			form + `"access":"x"}`:                                          "access",
			form + `"access":{"users":"x"}}`:                                "access.users",
			form + `"access":{"users":[1]}}`:                                "access.users[0]",
			form + `"access":{"everyone":1}}`:                               "access.everyone",
			form + `"access":{"user":[]}}`:                                  "access.user",
			form + `"access":{"Users":[]}}`:                                 "access.Users",
			form + `"knowledge":[1]}`:                                       "knowledge[0]",
			form + `"knowledge":[{"name":1}]}`:                              "knowledge[0].name",
			form + `"knowledge":{}}`:                                        "knowledge",
			form + `"model":"n"}`:                                           "model",
			form + `"access":{"users":[],"users":["x"]}}`:                   "access.users",
			form + `"subagents":{"r":{"prompt":"a","prompt":"b"}}}`:         "subagents.r.prompt",
			form + `"more":{"x":[{"y":1,"y":2}]}}`:                          "more.x[0].y",
			form + `"limits":{"runTimeout":[]}}`:                            "limits.runTimeout",
			form + `"thinking":[]}`:                                         "thinking",
			`{"name":"b","providerId":"demo","model":"m","\u006dodel":"n"}`: "model",
		} {
			r := s.ada.Do(http.MethodPost, agents, strings.NewReader(body), "Content-Type", "application/json")
			fields := r.Error(http.StatusBadRequest, wire.InvalidRequest)["data"].(object)["fields"].(object)
			require.Contains(t, fields, field, body)
			require.NotRegexp(t, `Go |struct|catalog\.|agent\.|json:|map\[|\[\]string|plain`, r.Text, body)
		}
		// Names in another letter case are unknown, and ignored.
		made := s.ada.Post(agents, demo("c", "Model", "evil", "ENABLED", false, "systemprompt", "x")).Want(http.StatusCreated)
		require.Equal(t, []any{"demo", true, ""}, []any{made["model"], made["enabled"], made["systemPrompt"]})
	})
}
