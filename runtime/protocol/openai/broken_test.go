package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// Unknown fields are ignored. A field of another type, and a body that is too large, is an error.
func TestBrokenResponses(t *testing.T) {
	b := serve(t, nil, nil)
	_, r := b.respond(`{"model":"helper","input":[{"role":"user","content":"a","new":{}}],"new":[1],"temperature":null,"include":["x"]}`)
	require.Equal(t, "completed", r["status"])
	for field, value := range map[string]string{
		"model": `5`, "input": `true`, "instructions": `[]`, "previous_response_id": `{}`, "store": `"yes"`, "stream": `1`, "background": `"no"`,
		"metadata": `[]`, "tools": `{}`, "tool_choice": `5`,
	} {
		body := `{"` + field + `":` + value
		if field != "model" {
			body += `,"model":"helper"`
		}
		res := b.do("POST", "/responses", body+`}`)
		require.Equal(t, http.StatusBadRequest, res.status, "%s: %s", field, res.body)
		fits(t, "ErrorResponse", res.json)
		require.Contains(t, errorOf(t, res.json)["message"], field)
	}
	for _, path := range []string{"/responses", "/responses/compact", "/chat/completions"} {
		res := b.do("POST", path, `{"model":"helper","input":"`+strings.Repeat("x", 20<<20)+`"}`)
		require.Equal(t, http.StatusRequestEntityTooLarge, res.status, path)
	}
}

// A response of one agent is continued by another one in a conversation of its own.
func TestResponsesOfAnotherAgent(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Hello."))))
	b := serve(t, up, func(c *runtime.Config) {
		other := c.Agents[0]
		other.ID = "other"
		c.Agents = append([]agent.Agent{other}, c.Agents...)
	})
	_, first := b.respond(`{"model":"helper","input":"I am Ada."}`)
	_, second := b.respond(`{"model":"other","input":"Who am I?","previous_response_id":"` + first["id"].(string) + `"}`)
	require.Equal(t, "other", second["model"])
	require.Contains(t, string(up.Requests()[1].Body), "I am Ada.")
	require.NotEqual(t, first["id"].(string)[37:], second["id"].(string)[37:], "the sessions")
	again := b.do("GET", "/responses/"+first["id"].(string), "")
	require.Equal(t, "helper", again.json["model"])
}
