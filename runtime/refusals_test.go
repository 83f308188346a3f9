package runtime_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

func TestBadRequests(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		c.Limits.MaxMessageBytes = 1000
		c.Agents = append(c.Agents, agent.Agent{ID: "broken", Model: "m", Provider: agent.Provider{Protocol: "anthropic"}})
	})
	for name, row := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"no message":                {runs, `{}`, 400, `{"error":"Invalid request: message is required"}`},
		"an empty message":          {runs, `{"message":""}`, 400, `{"error":"Invalid request: message is required"}`},
		"a message of white space":  {runs, `{"message":" \n\t"}`, 400, `{"error":"Invalid request: message is required"}`},
		"a message that is null":    {runs, `{"message":null}`, 400, `{"error":"Invalid request: message is required"}`},
		"a message of another type": {runs, `{"message":1}`, 400, `{"error":"Invalid request: message must be a string, not number"}`},
		"an empty body":             {runs, ``, 400, `{"error":"Invalid request: the body is empty"}`},
		"not JSON": {runs, `message=hello`, 400,
			`{"error":"Invalid request: the body is not JSON: invalid character 'm' at start of value at byte 0"}`},
		"JSON cut off": {runs, `{"message":"hel`, 400,
			`{"error":"Invalid request: the body is not JSON: unexpected end of JSON input at byte 15"}`},
		"more after the JSON": {runs, `{"message":"hello"} {}`, 400,
			`{"error":"Invalid request: the body is not JSON: invalid character '{' after top-level value at byte 20"}`},
		"an array":  {runs, `["hello"]`, 400, `{"error":"Invalid request: the body must be an object, not array"}`},
		"not UTF-8": {runs, "{\"message\":\"\xff\"}", 400, `{"error":"Invalid request: the body is not UTF-8"}`},
		"another stream": {runs, `{"message":"hello","stream":"maybe"}`, 400,
			`{"error":"Invalid request: stream must be true, false, \"raw\" or \"block\""}`},
		"a required session without an id": {runs, `{"message":"hello","requireSession":true}`, 400,
			`{"error":"Invalid request: requireSession needs a sessionId"}`},
		"a run to follow without a session": {runs, `{"message":"hello","afterRunId":"x"}`, 400,
			`{"error":"Invalid request: afterRunId needs a sessionId"}`},
		"maxTurns below 1": {runs, `{"message":"hello","maxTurns":0}`, 400,
			`{"error":"Invalid request: maxTurns must be at least 1"}`},
		"maxTurns of another type": {runs, `{"message":"hello","maxTurns":"5"}`, 400,
			`{"error":"Invalid request: maxTurns must be an integer, not string"}`},
		"maxTurns that is not an integer": {runs, `{"message":"hello","maxTurns":1.5}`, 400,
			`{"error":"Invalid request: maxTurns must be an integer, not number 1.5"}`},
		"timeoutMs below 1": {runs, `{"message":"hello","timeoutMs":-1}`, 400,
			`{"error":"Invalid request: timeoutMs must be at least 1"}`},
		"a sessionId with a slash": {runs, `{"message":"hello","sessionId":"a/b"}`, 400,
			`{"error":"Invalid request: sessionId must be 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'"}`},
		"a sessionId of dots": {runs, `{"message":"hello","sessionId":".."}`, 400,
			`{"error":"Invalid request: sessionId must be 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'"}`},
		"an empty sessionId": {runs, `{"message":"hello","sessionId":""}`, 400,
			`{"error":"Invalid request: sessionId must be 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'"}`},
		"an empty runId": {runs, `{"message":"hello","runId":""}`, 400, `{"error":"Invalid runId format"}`},
		"a runId of another type": {runs, `{"message":"hello","runId":7}`, 400,
			`{"error":"Invalid request: runId must be a string, not number"}`},
		"metadata of another type": {runs, `{"message":"hello","metadata":{"a":1}}`, 400,
			`{"error":"Invalid request: metadata must be an object whose values are strings"}`},
		"too large": {runs, `{"message":"` + strings.Repeat("x", 1000) + `"}`, 413,
			`{"error":"Request body too large"}`},
		"an unknown agent":             {"/v1/agents/nobody/runs", `{"message":"hello"}`, 404, `{"error":"Agent not found"}`},
		"an agent without a name":      {"/v1/agents//runs", `{"message":"hello"}`, 404, `{"error":"Agent not found"}`},
		"a bad body for unknown agent": {"/v1/agents/nobody/runs", `{}`, 400, `{"error":"Invalid request: message is required"}`},
		"an unavailable agent":         {"/v1/agents/broken/runs", `{"message":"hello"}`, 503, `{"error":"Agent unavailable"}`},
		"a runId for unavailable agent": {"/v1/agents/broken/runs", `{"message":"hello","runId":"x"}`, 503,
			`{"error":"Agent unavailable"}`},
		"a runId that is not a UUID": {runs, `{"message":"hello","runId":"run-1"}`, 400, `{"error":"Invalid runId format"}`},
		"a runId in another form": {runs, `{"message":"hello","runId":"4a6f1b2c3d4e4f50a6b7c8d9e0f1a2b3"}`, 400,
			`{"error":"Invalid runId format"}`},
	} {
		t.Run(name, func(t *testing.T) {
			res := b.do(t, "POST", row.path, row.body)
			require.Equal(t, row.status, res.status)
			require.Equal(t, row.want, res.body)
			require.Equal(t, "application/json", res.header.Get("Content-Type"))
			require.NotEmpty(t, res.header.Get("X-Request-ID"))
		})
	}
}

func TestBodyTooLargeWithoutLength(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) { c.Limits.MaxMessageBytes = 1000 })
	body := struct{ *strings.Reader }{strings.NewReader(`{"message":"` + strings.Repeat("x",
		1000) + `"}`)} // net/http does not know its length
	res, err := http.Post(b.url+runs, "application/json", body)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	b := serve(t, nil, nil)
	res, _ := b.blocking(t, `{"message":"hello","model":"another","systemPrompt":"evil","cwd":"/","later":{}}`)
	require.Equal(t, http.StatusOK, res.status)
}

// Names of fields are compared exactly, and occur once.
func TestNamesOfFieldsAreExact(t *testing.T) {
	b := serve(t, nil, nil)
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	res, body := b.blocking(t, `{"message":"hello","Message":"evil","RunID":"`+id+`"}`)
	require.Equal(t, http.StatusOK, res.status)
	require.NotEqual(t, id, body.RunID)
	require.NotContains(t, body.Text, "evil")
	res, _ = b.blocking(t, `{"message":"hello","sessionId":null,"runId":null}`)
	require.Equal(t, http.StatusOK, res.status, "null is absent")
	for body, field := range map[string]string{
		`{"message":"a","message":"b"}`:                                          "message",
		`{"message":"a","metadata":{"x":"1","x":"2"}}`:                           "metadata.x",
		`{"message":"a","more":[{"x":1,"\u0078":2}]}`:                            "more[0].x",
		`{"message":"a","history":[{"role":"user","role":"user","content":""}]}`: "history[0].role",
	} {
		res, _ := b.blocking(t, body)
		require.Equal(t, http.StatusBadRequest, res.status, body)
		require.Contains(t, res.body, "Invalid request: "+field+" must not occur twice", body)
	}
}

func TestPathsAndMethods(t *testing.T) {
	b := serve(t, nil, nil)
	for name, row := range map[string]struct {
		method, path string
		status       int
		allow, body  string
	}{
		"an unknown path":            {"GET", "/nothing", 404, "", `{"error":"Not found"}`},
		"an unknown v1 path":         {"GET", "/v1/nothing", 404, "", `{"error":"Not found"}`},
		"a trailing slash":           {"GET", "/v1/agents/helper/", 404, "", `{"error":"Not found"}`},
		"another method":             {"DELETE", "/v1/agents/helper", 405, "GET, HEAD", `{"error":"Method not allowed"}`},
		"GET of runs":                {"GET", runs, 405, "POST", `{"error":"Method not allowed"}`},
		"OPTIONS":                    {"OPTIONS", runs, 405, "POST", `{"error":"Method not allowed"}`},
		"GET of cancel":              {"GET", "/v1/runs/x/cancel", 405, "POST", `{"error":"Method not allowed"}`},
		"detail of an unknown agent": {"GET", "/v1/agents/nobody", 404, "", `{"error":"Agent not found"}`},
		"cancel of nothing":          {"POST", "/v1/runs/4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3/cancel", 404, "", `{"error":"Run not found"}`},
		"cancel of an invalid id":    {"POST", "/v1/runs/x/cancel", 404, "", `{"error":"Run not found"}`},
		"cancel of an empty id":      {"POST", "/v1/runs//cancel", 404, "", `{"error":"Run not found"}`},
	} {
		t.Run(name, func(t *testing.T) {
			res := b.do(t, row.method, row.path, "")
			require.Equal(t, row.status, res.status)
			require.Equal(t, row.allow, res.header.Get("Allow"))
			require.Equal(t, row.body, res.body)
		})
	}
}

func TestRunIDConflict(t *testing.T) {
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Hi.")))
	b := serve(t, up, nil)
	s := b.open(t.Context(), t, `{"message":"hello","runId":"`+strings.ToUpper(id)+`"}`)
	require.Equal(t, id, s.res.Header.Get("X-Run-ID"), "in lower case")
	for _, when := range []string{"active", "cached"} {
		res := b.do(t, "POST", runs, `{"message":"hello","runId":"`+id+`"}`)
		require.Equal(t, http.StatusConflict, res.status, when)
		require.JSONEq(t, `{"error":"Run ID conflict","runId":"`+id+`"}`, res.body, when)
		if when == "active" {
			close(gate)
			s.until("done")
		}
	}
}

func TestRunIDMayBeUsedAgainLater(t *testing.T) {
	const body = `{"message":"hello","runId":"4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"}`
	b := serve(t, nil, func(c *runtime.Config) { c.RunTTL = time.Nanosecond })
	for range 2 {
		res, _ := b.blocking(t, body)
		require.Equal(t, http.StatusOK, res.status)
	}
}

func TestTooManyRuns(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Hi."))))
	b := serve(t, up, func(c *runtime.Config) { c.Limits.MaxConcurrentRuns = 1 })
	s := b.open(t.Context(), t, `{"message":"hello"}`)
	const refused = `{"message":"hello","runId":"4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"}`
	res := b.do(t, "POST", runs, refused)
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.JSONEq(t, `{"error":"Too many runs"}`, res.body)
	require.NotEmpty(t, res.header.Get("Retry-After"))
	close(gate)
	s.until("done")
	res, _ = b.blocking(t, refused)
	require.Equal(t, http.StatusOK, res.status, "a rejected run does not use its id")
}

func TestTheOrderOfChecks(t *testing.T) {
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("Hi.")),
		modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Hi.")))
	b := serve(t, up, func(c *runtime.Config) { c.Limits.MaxConcurrentRuns = 1 })
	_, first := b.blocking(t, `{"message":"hello"}`)
	s := b.open(t.Context(), t, `{"message":"hello","runId":"`+id+`","sessionId":"`+first.SessionID+`"}`)
	refused := func(body string) string { return b.do(t, "POST", runs, body).body }
	// All three faults apply: the id is in use, the session is busy, and the limit of runs is
	// reached.
	require.Contains(t, refused(`{"message":"hello","runId":"`+id+`","sessionId":"`+first.SessionID+`"}`), "Run ID conflict")
	require.Contains(t, refused(`{"message":"hello","sessionId":"`+first.SessionID+`"}`), "Session busy")
	require.Contains(t, refused(`{"message":"hello"}`), "Too many runs")
	close(gate)
	s.until("done")
}
