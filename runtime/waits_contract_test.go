package runtime_test

import (
	"encoding/json"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// waits produces every response and event of runs that wait.
func (c *contract) waits() {
	up := modeltest.Start(c.t, modeltest.Anthropic, callOf("greet", `{}`, "pick", `{}`, "Bash", `{"command":"rm x"}`), modeltest.Repeat(done()))
	b := serve(c.t, up, func(cfg *runtime.Config) { cfg.Tools = []tool.Tool{asking(c.t)} })
	var first wire.RunResponse
	res := c.call(b, "POST", runs, `{"message":"go",`+allInputs+`,"clientTools":[{"name":"pick","description":"d","inputSchema":{"type":"object"}}]}`, asJSON...)
	require.NoError(c.t, json.Unmarshal([]byte(res.body), &first))
	require.Len(c.t, first.Pending, 3)
	c.unforeseen = true // what waits is not in the document
	require.Equal(c.t, 400, c.call(b, "POST", runs, answersTo(first, approve), asJSON...).status)
	require.Equal(c.t, 400, c.call(b, "POST", runs, `{"sessionId":"`+first.SessionID+`","answers":[]}`).status)
	c.unforeseen = false
	answers := answersTo(first, approve, `"output":"x","isError":false`, reject+`,"reason":"No."`)
	question := c.call(b, "POST", runs, answers)
	require.Contains(c.t, question.body, `"server":"people"`)
	require.Equal(c.t, 409, c.call(b, "POST", runs, answers).status)
	require.Contains(c.t, c.call(b, "GET", "/v1/sessions/"+first.SessionID, "").body, `"digest":`)
	require.Equal(c.t, 200, c.call(b, "POST", runs, `{"message":"Never mind.","sessionId":"`+first.SessionID+`"}`).status)

	up = modeltest.Start(c.t, modeltest.Anthropic, callOf("Bash", appendOne), callOf("Bash", appendOne), modeltest.Repeat(done()))
	w := new(waiter)
	w.start(c.t, up, nil)
	require.Contains(c.t, c.call(w.bench, "POST", runs, `{"message":"go",`+allInputs+`}`).body, "permission_required")
	first = w.ask(c.t, "")
	w.start(c.t, up, func(cfg *runtime.Config) { cfg.Agents[0].DisallowedTools = []string{"Bash"} })
	changed := c.call(w.bench, "POST", runs, answersTo(first, approve))
	require.Equal(c.t, 409, changed.status)
	require.Contains(c.t, changed.body, "Call changed")
	for _, body := range []string{
		`{"answers":[{"id":"a","decision":"approve"}]}`, `{"message":"x","inputs":["x"]}`,
		`{"message":"x","inputs":["client_tool"],"clientTools":[{"name":"a b"}]}`, `{"sessionId":"s","answers":[{"id":"a","decision":"x"}]}`,
		`{"sessionId":"s","answers":[{"id":"a","decision":"approve","input":[]}]}`,
	} {
		require.Equal(c.t, 400, c.call(b, "POST", runs, body).status, body)
	}
	for _, body := range []string{
		`{"message":"x","inputs":null,"clientTools":null,"answers":null}`,
		strings.Replace(answersTo(first, reject), `"answers"`, `"message":"","answers"`, 1),
	} {
		require.Equal(c.t, 200, c.call(w.bench, "POST", runs, body).status, body)
	}
}
