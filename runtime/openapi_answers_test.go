package runtime_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// asJSON are the headers of a blocking run.
var asJSON = []string{"Accept", "application/json"}

const hello = `{"message":"hello"}`

// TestResponsesMatchTheDocument produces every response and every event that the document
// describes.
func TestResponsesMatchTheDocument(t *testing.T) {
	c := newContract(t)
	for name, part := range map[string]func(*contract){
		"agents": (*contract).agents, "admission": (*contract).admission, "rejected bodies": (*contract).rejectedBodies,
		"streams": (*contract).streams, "blocking runs": (*contract).blockingRuns, "faults": (*contract).faults,
		"busy": (*contract).busy, "cancel": (*contract).cancels, "going down": (*contract).goingDown,
		"listings": (*contract).listings, "files": (*contract).files, "conditions": (*contract).conditions,
		"servers": (*contract).mcpServers, "subagents": (*contract).subagents, "summaries": (*contract).summaries,
		"waits": (*contract).waits, "uploads": (*contract).uploads,
	} {
		t.Run(name, func(t *testing.T) {
			within := *c
			within.t = t
			part(&within)
		})
	}
	for op, in := range c.doc.All() {
		for status := range in.Responses.Map() {
			require.True(t, c.seen[op+" "+status], "no runtime gave the answer %s of %s", status, op)
		}
	}
	for _, event := range []string{
		"system/init", "system/permission_denied", "system/permission_required", "system/answered", "result/input_required", "system/mcp_status", "system/compact_boundary", "system/warning", "partial_message/text", "partial_message/thinking", "partial_message/tool_use",
		"assistant", "tool_result", "result/success", "result/error", "result/error_max_turns", "result/error_during_execution",
		"cancelled", "error", "done",
	} {
		require.True(t, c.seen["event "+event], "no runtime sent %s", event)
	}
}

func (c *contract) agents() {
	full := agent.Agent{
		ID: "full", Name: "Full", Description: "Has everything", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
		SystemPrompt: "x", MaxTurns: 3, PermissionMode: "acceptEdits",
		AllowedTools: []string{"greet"}, DisallowedTools: []string{}, SettingSources: []string{"user", "project", "local"}, ExtraUserSkillDirs: []string{c.t.TempDir()},
		MCPServers: map[string]agent.MCPServer{
			"files": {Transport: "stdio", Command: "x", Args: []string{"-v"}, Env: map[string]agent.Secret{"KEY": "secret"}},
			"web":   {Transport: "http", URL: "https://example.org", Headers: map[string]agent.Secret{"KEY": "secret"}},
		},
		Subagents: map[string]agent.Subagent{"reviewer": {Description: "Reviews", Prompt: "secret"}},
		Datasets:  map[string]string{"handbook": "The handbook"},

		OutputSchema: json.RawMessage(`{"type":"object"}`),
	}
	b := serve(c.t, nil, func(cfg *runtime.Config) {
		cfg.Agents = append(cfg.Agents, full, agent.Agent{ID: "broken", Model: "m", Provider: agent.Provider{Protocol: "anthropic"}})
		cfg.Tools = []tool.Tool{greet()}
		writeFile(c.t, cfg.CWD, ".agents/skills/letters/SKILL.md", "---\nname: letters\ndescription: How to write letters\n---\nBe brief.\n")
	})
	for _, method := range []string{"GET", "HEAD"} {
		for path, status := range map[string]int{
			"/health": 200, "/health/ready": 200, "/v1/agents": 200, "/v1/agents/helper": 200, "/v1/agents/full": 200, "/v1/agents/broken": 200, "/v1/agents/nobody": 404,
		} {
			res := c.call(b, method, path, "")
			require.Equal(c.t, status, res.status, path)
			require.Equal(c.t, "application/json", res.header.Get("Content-Type"))
		}
		require.Equal(c.t, 404, c.call(b, method, "/", "", "Accept", "application/json").status)
		for _, path := range []string{"/openapi.yaml", "/openapi.json", "/docs", "/"} {
			require.Equal(c.t, 200, c.call(b, method, path, "").status, path)
		}
	}
	detail, schema := c.call(b, "GET", "/v1/agents/full", "").body, c.doc.Schema("AgentDetail")
	for name := range schema.Properties {
		require.Contains(c.t, detail, `"`+name+`":`, "a field that the document has and the runtime has not")
	}
	init := c.call(b, "POST", "/v1/agents/full/runs", hello).body
	require.Contains(c.t, init, `"skills":["letters"]`)
	require.Contains(c.t, init, `"mcp_servers":[{"name":"files","status":"failed"},{"name":"web","status":"failed"}]`)
}

func (c *contract) admission() {
	locked := serve(c.t, nil, func(cfg *runtime.Config) { cfg.APIKeys = []string{"key"} })
	open := serve(c.t, nil, nil)
	for name, op := range c.doc.All() {
		method, path, _ := strings.Cut(name, " ")
		if op.Security == nil { // else it needs no key
			require.Equal(c.t, 401, c.call(locked, method, existing(path), "").status)
			require.Equal(c.t, 401, c.call(locked, method, existing(path), "", "x-api-key", "wrong").status)
		}
		require.Equal(c.t, 403, c.call(open, method, existing(path), "", "Host", "evil.example").status)
		if method == "POST" || method == "DELETE" {
			require.Equal(c.t, 403, c.call(locked, method, existing(path), "", "Sec-Fetch-Site", "cross-site").status, "before the key is asked for")
		}
	}
	require.Equal(c.t, 200, c.call(locked, "GET", "/v1/agents", "", "x-api-key", "key").status)
}

func (c *contract) rejectedBodies() {
	b := serve(c.t, nil, func(cfg *runtime.Config) {
		cfg.Limits.MaxMessageBytes = 200
		cfg.Agents = append(cfg.Agents, agent.Agent{ID: "broken", Model: "m", Provider: agent.Provider{Protocol: "anthropic"}})
	})
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `{"message":null}`, `{"message":" \n\t"}`, `{"message":1}`, `{"message":"x","stream":"maybe"}`, `{"message":"x","stream":1}`,
		`{"message":"x","sessionId":""}`, `{"message":"x","runId":""}`, `{"message":"x","sessionId":".."}`, `{"message":"x","sessionId":"a/b"}`, `{"message":"x","sessionId":"` + strings.Repeat("a", 129) + `"}`,
		`{"message":"x","maxTurns":0}`, `{"message":"x","maxTurns":1.5}`, `{"message":"x","timeoutMs":-1}`, `{"message":"x","metadata":{"a":1}}`,
		`{"message":"x","outputSchema":[]}`, `{"message":"x","outputSchema":"{}"}`,
		`{"message":"x","runId":"run-1"}`, `{"message":"x","runId":"4a6f1b2c3d4e4f50a6b7c8d9e0f1a2b3"}`, `{"message":"hel`, `message=hello`,
	} {
		require.Equal(c.t, 400, c.call(b, "POST", runs, body).status, body)
	}
	for _, body := range []string{
		`{"message":"x","stream":null,"sessionId":null,"runId":null,"maxTurns":null,"timeoutMs":null,"metadata":null,"outputSchema":null}`,
		`{"message":"x","maxTurns":999,"timeoutMs":9223372036854775807,"metadata":{},"later":[]}`,
		`{"message":"x","sessionId":"unknown","runId":"4A6F1B2C-3D4E-4F50-A6B7-C8D9E0F1A2B3","stream":false}`,
	} {
		require.Equal(c.t, 200, c.call(b, "POST", runs, body).status, body)
	}
	require.Equal(c.t, 413, c.call(b, "POST", runs, `{"message":"`+strings.Repeat("x", 200)+`"}`).status)
	require.Equal(c.t, 406, c.call(b, "POST", runs, hello, "Accept", "text/html").status)
	require.Equal(c.t, 404, c.call(b, "POST", "/v1/agents/nobody/runs", hello).status)
	require.Equal(c.t, 503, c.call(b, "POST", "/v1/agents/broken/runs", hello).status)
}

func withTools(cfg *runtime.Config) {
	cfg.Agents[0].AllowedTools = []string{"greet", "erase(*.md)"}
	cfg.Tools = []tool.Tool{greet(), tool.New(tool.Spec{Name: "erase"}, nil)}
}

func (c *contract) streams() {
	for name, row := range map[string]struct {
		body    string
		replies []modeltest.Reply
		end     string
	}{
		"success":                 {hello, everything(), `"subtype":"success"`},
		"success, blocks":         {`{"message":"hello","stream":"block"}`, everything(), `"subtype":"success"`},
		"nothing":                 {hello, []modeltest.Reply{modeltest.Stream()}, `"subtype":"error"`},
		"failure":                 {hello, []modeltest.Reply{modeltest.Status(529)}, `"subtype":"error"`},
		"failure later on":        {hello, []modeltest.Reply{modeltest.Stream(modeltest.Text("Half an"), modeltest.Drop())}, `"subtype":"error"`},
		"turns":                   {`{"message":"hello","maxTurns":1}`, everything(), `"subtype":"error_max_turns"`},
		"time":                    {`{"message":"hello","timeoutMs":20}`, []modeltest.Reply{modeltest.Stream(modeltest.Hang())}, `"subtype":"error_during_execution"`},
		"a message that is cut":   {hello, []modeltest.Reply{modeltest.Burst(modeltest.Text(slices.Repeat([]string{strings.Repeat("x", 64<<10)}, 70)...))}, `"truncated":true`},
		"an output":               {withSchema, []modeltest.Reply{modeltest.Stream(modeltest.ToolCall("t1", "StructuredOutput", `{"sum":"3"}`))}, `"structured":{"sum":3}`},
		"no output":               {withSchema, []modeltest.Reply{modeltest.Stream(modeltest.Text("No.")), modeltest.Stream(modeltest.Text("No!"))}, `"error_type":"output_invalid"`},
		"a tool that is not here": {hello, []modeltest.Reply{modeltest.Stream(modeltest.ToolCall("t1", "nothing", `{}`)), modeltest.Stream(modeltest.Text("Oh."))}, `"subtype":"success"`},
	} {
		res := c.call(serve(c.t, modeltest.Start(c.t, modeltest.Anthropic, row.replies...), func(cfg *runtime.Config) {
			withTools(cfg)
			cfg.Limits.MaxResponseBytes = 8 << 20 // longer than an event
		}), "POST", runs, row.body)
		require.Equal(c.t, 200, res.status, name)
		require.Contains(c.t, res.body, row.end, name)
	}
}

func (c *contract) blockingRuns() {
	for name, row := range map[string]struct {
		body    string
		replies []modeltest.Reply
		status  int
	}{
		"success":           {hello, everything(), 200},
		"rate limit":        {hello, []modeltest.Reply{modeltest.Status(429, "Retry-After", "7")}, 429},
		"rate limit, plain": {hello, []modeltest.Reply{modeltest.Status(429)}, 429},
		"overloaded":        {hello, []modeltest.Reply{modeltest.Status(529, "Retry-After", "7")}, 502},
		"half an answer":    {hello, []modeltest.Reply{modeltest.Stream(modeltest.Text("Half an"), modeltest.Drop())}, 502},
		"turns":             {`{"message":"hello","maxTurns":1}`, everything(), 502},
		"time":              {`{"message":"hello","timeoutMs":20}`, []modeltest.Reply{modeltest.Stream(modeltest.Hang())}, 502},
		"an output":         {withSchema, []modeltest.Reply{modeltest.Stream(modeltest.ToolCall("t1", "StructuredOutput", `{"sum":3}`))}, 200},
		"no output":         {withSchema, []modeltest.Reply{modeltest.Stream(modeltest.Text("No.")), modeltest.Stream(modeltest.Text("No!"))}, 502},
	} {
		up := modeltest.Start(c.t, modeltest.Anthropic, row.replies...)
		require.Equal(c.t, row.status, c.call(serve(c.t, up, withTools), "POST", runs, row.body, asJSON...).status, name)
	}
}

// lostSessions is a store that fails.
type lostSessions struct{ session.Store }

func (lostSessions) Delete(context.Context, string) error { return os.ErrPermission }

func (lostSessions) Open(context.Context, string, string) (session.Session, error) {
	return nil, os.ErrPermission
}

func (c *contract) faults() {
	b := serve(c.t, nil, func(cfg *runtime.Config) {
		cfg.NewModel = func(agent.Provider) (model.Model, error) { return broken{}, nil }
	})
	require.Equal(c.t, 500, c.call(b, "POST", runs, hello, asJSON...).status)
	require.Contains(c.t, c.call(b, "POST", runs, hello).body, "event: error\n")
	b = serve(c.t, nil, func(cfg *runtime.Config) { cfg.Sessions = lostSessions{} })
	res := c.call(b, "POST", runs, hello)
	require.Equal(c.t, 500, res.status)
	require.NotContains(c.t, res.header, "X-Run-Id", "no run had started")
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		require.Equal(c.t, 500, c.call(b, method, "/v1/sessions/x", "").status)
	}
}

func (lostSessions) Transcript(context.Context, string, int64, int) (session.Transcript, error) {
	return session.Transcript{}, os.ErrPermission
}

func (c *contract) busy() {
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	gate := make(chan struct{})
	up := modeltest.Start(c.t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi.")), modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Hi.")))
	b := serve(c.t, up, func(cfg *runtime.Config) { cfg.Limits.MaxConcurrentRuns = 1 })
	_, first := b.blocking(c.t, hello)
	s := b.open(c.t.Context(), c.t, `{"message":"hello","runId":"`+id+`","sessionId":"`+first.SessionID+`"}`)
	for body, want := range map[string]int{`{"message":"x","runId":"` + id + `"}`: 409, `{"message":"x","sessionId":"` + first.SessionID + `"}`: 409,
		`{"message":"x","sessionId":"unknown","requireSession":true}`: 409, hello: 503} {
		require.Equal(c.t, want, c.call(b, "POST", runs, body).status, body)
	}
	require.Equal(c.t, 409, c.call(b, "DELETE", "/v1/sessions/"+first.SessionID, "").status)
	for path, want := range map[string]int{first.SessionID: 200, first.SessionID + "?after=1&limit=1": 200, first.SessionID + "?limit=0": 400, "unknown": 404} {
		for _, method := range []string{"GET", "HEAD"} {
			require.Equal(c.t, want, c.call(b, method, "/v1/sessions/"+path, "").status, path)
		}
	}
	close(gate)
	s.until("done")
	require.Equal(c.t, 204, c.call(b, "DELETE", "/v1/sessions/"+first.SessionID, "").status)
}

func (c *contract) cancels() {
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	cancel := "/v1/runs/" + id + "/cancel"
	for _, headers := range [][]string{asJSON, nil} {
		started, stopped, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
		slow := tool.New(tool.Spec{Name: "slow", ReadOnly: true}, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			close(started)
			<-ctx.Done()
			close(stopped)
			<-release
			return tool.Result{}, ctx.Err()
		})
		up := modeltest.Start(c.t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Half an"), modeltest.ToolCall("t1", "slow", `{}`)))
		b := serve(c.t, up, func(cfg *runtime.Config) { cfg.Tools = []tool.Tool{slow} })
		require.Equal(c.t, 404, c.call(b, "POST", cancel, "").status)
		done := make(chan response, 1)
		go func() { done <- b.do(c.t, "POST", runs, `{"message":"hello","runId":"`+id+`"}`, headers...) }()
		<-started
		require.Contains(c.t, c.call(b, "POST", cancel, "").body, `"state":"cancelling"}`)
		<-stopped
		require.Contains(c.t, c.call(b, "POST", cancel, "").body, `"state":"cancelling","reason":"client_request"}`)
		close(release)
		c.judge("POST", runs, hello, <-done)
		require.Contains(c.t, c.call(b, "POST", cancel, "").body, `"state":"cancelled","reason":"client_request"}`)
	}
	b := serve(c.t, nil, nil)
	_, completed := b.blocking(c.t, hello)
	require.Equal(c.t, 409, c.call(b, "POST", "/v1/runs/"+completed.RunID+"/cancel", "").status)
	require.Equal(c.t, 404, c.call(b, "POST", "/v1/runs/run-1/cancel", "").status)

	bus := &severed{Bus: run.NewMemoryBus()}
	bus.away.Store(true)
	b = serve(c.t, nil, func(cfg *runtime.Config) { cfg.Bus = bus })
	require.Equal(c.t, 503, c.call(b, "POST", cancel, "").status)
	require.Contains(c.t, c.call(b, "GET", "/health", "").body, "degraded")
}

func (c *contract) goingDown() {
	b := serve(c.t, nil, nil)
	require.NoError(c.t, b.Drain(c.t.Context()))
	require.Equal(c.t, 503, c.call(b, "GET", "/health/ready", "").status)
	require.Equal(c.t, 503, c.call(b, "HEAD", "/health/ready", "").status)
	require.Equal(c.t, 200, c.call(b, "GET", "/health", "").status)
	require.Equal(c.t, 503, c.call(b, "POST", runs, hello).status)
}

func (c *contract) listings() {
	cwd := c.t.TempDir()
	for i := range 200 {
		writeFile(c.t, cwd, strings.Repeat("x", i+1), "")
	}
	small := serve(c.t, nil, func(cfg *runtime.Config) {
		cfg.CWD = cwd
		cfg.Limits.MaxMemoryBytes = 1
	})
	for _, method := range []string{"GET", "HEAD"} {
		require.Equal(c.t, 503, c.call(small, method, "/v1/files", "").status)
	}
	b := serve(c.t, nil, func(cfg *runtime.Config) { cfg.CWD = worktree(c.t) })
	for query, status := range map[string]int{
		"": 200, "?path=": 200, "?path=sub": 200, "?path=./sub//deep/": 200, "?path=intolink": 200, "?recursive=true": 200, "?recursive=false&depth=7": 200,
		"?path=sub&recursive=true&depth=0": 200, "?path=..": 400, "?path=sub/../sub": 400, "?path=/etc": 400, "?path=a%00": 400, "?path=C:%5C": 400,
		"?path=%5C%5Chost%5Cshare": 400, "?depth=-1": 400, "?depth=1.5": 400, "?depth=all&recursive=true": 400, "?path=nothing": 404, "?path=broken": 404,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			require.Equal(c.t, status, c.call(b, method, "/v1/files"+query, "").status, query)
		}
	}
	c.unforeseen = true
	for _, query := range []string{"?path=a.txt", "?path=fifo", "?path=out", "?path=out/dir"} {
		require.Equal(c.t, 400, c.call(b, "GET", "/v1/files"+query, "").status, query)
	}
}

func (c *contract) files() {
	b := serve(c.t, nil, func(cfg *runtime.Config) { cfg.CWD = worktree(c.t) })
	for _, method := range []string{"GET", "HEAD"} {
		for path, status := range map[string]int{
			"a.txt": 200, "./sub//b.json": 200, "empty": 200, "link": 200, "%C3%BC%20%22%25.pdf": 200,
			"": 400, "/etc/passwd": 400, "../x": 400, "sub/..": 400, "a.txt%00": 400, "nothing": 404, "a.txt/": 404, "broken": 404,
		} {
			require.Equal(c.t, status, c.call(b, method, "/v1/files/content?path="+path, "").status, path)
		}
		require.Equal(c.t, 400, c.call(b, method, "/v1/files/content", "").status)
		for header, status := range map[string]int{
			"bytes=0-3": 206, "bytes=3-": 206, "bytes=-3": 206, "bytes=3-999": 206, "bytes=-999": 206,
			"bytes=0-1,3-4": 200, "bytes=5-2": 200, "lines=1-2": 200, "bytes=": 200, "bytes=12-": 416, "bytes=99-10": 416, "bytes=-0": 416,
		} {
			require.Equal(c.t, status, c.call(b, method, "/v1/files/content?path=a.txt", "", "Range", header).status, header)
		}
	}
	c.unforeseen = true
	for _, path := range []string{"sub", "sub/", ".", "fifo", "out", "out/secret.txt"} {
		require.Equal(c.t, 400, c.call(b, "GET", "/v1/files/content?path="+path, "").status, path)
	}
}

func (c *contract) conditions() {
	b := serve(c.t, nil, func(cfg *runtime.Config) { cfg.CWD = worktree(c.t) })
	const path = "/v1/files/content?path=a.txt"
	file := c.call(b, "GET", path, "").header
	tag, date := file.Get("ETag"), file.Get("Last-Modified")
	for _, method := range []string{"GET", "HEAD"} {
		for _, row := range []struct {
			header, value string
			status        int
		}{
			{"If-None-Match", tag, 304}, {"If-None-Match", "W/" + tag, 304}, {"If-None-Match", `"other"`, 200}, {"If-Modified-Since", date, 304},
			{"If-Match", tag, 200}, {"If-Match", `"other"`, 412}, {"If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT", 412},
			{"If-Range", tag, 206}, {"If-Range", date, 206}, {"If-Range", `"other"`, 200},
		} {
			headers := []string{row.header, row.value}
			if row.header == "If-Range" {
				headers = append(headers, "Range", "bytes=0-3")
			}
			require.Equal(c.t, row.status, c.call(b, method, path, "", headers...).status, "%s: %s", row.header, row.value)
		}
	}
}

func (c *contract) subagents() {
	task := modeltest.ToolCall("t1", "Task", `{"description":"Looks","prompt":"Look at it.","subagent_type":"reviewer"}`)
	up := modeltest.Start(c.t, modeltest.Anthropic, modeltest.Stream(task),
		modeltest.Stream(modeltest.ToolCall("s1", "greet", `{"name":"Ada"}`), modeltest.ToolCall("s2", "erase", `{}`)), modeltest.Stream(modeltest.Text("Looked.")),
		modeltest.Stream(modeltest.Text("Done.")))
	b := serve(c.t, up, func(cfg *runtime.Config) {
		withTools(cfg)
		cfg.Agents[0].AllowedTools = append(cfg.Agents[0].AllowedTools, "Task")
		cfg.Agents[0].Subagents = map[string]agent.Subagent{"reviewer": {Description: "Reviews", Prompt: "You review."}}
	})
	body := c.call(b, "POST", runs, hello).body
	require.Equal(c.t, 2, strings.Count(body, `"parent_tool_use_id":"t1","message":`), body)
	require.Equal(c.t, 2, strings.Count(body, `"parent_tool_use_id":"t1","result":`), body)
	require.Contains(c.t, body, `"subtype":"permission_denied","tool_name":"erase","tool_use_id":"s2"`)
	require.Contains(c.t, body, `"output":"Looked."`)
}

func (c *contract) summaries() {
	for subtype, summary := range map[string]modeltest.Reply{
		"compact_boundary": modeltest.Stream(modeltest.Text("Ada was greeted.")),
		"warning":          modeltest.Status(500),
	} {
		up := modeltest.Start(c.t, modeltest.Anthropic,
			modeltest.Stream(modeltest.ToolCall("t1", "greet", `{"name":"Ada`+strings.Repeat("a", 900)+`"}`), modeltest.Usage(model.Usage{InputTokens: 300, OutputTokens: 20})),
			modeltest.Stream(modeltest.ToolCall("t2", "greet", `{"name":"Bob"}`), modeltest.Usage(model.Usage{InputTokens: 780, OutputTokens: 30})),
			summary, modeltest.Stream(modeltest.Text("Both are greeted.")))
		b := serve(c.t, up, func(cfg *runtime.Config) {
			withTools(cfg)
			cfg.Agents[0].ContextWindow = 1000
		})
		require.Contains(c.t, c.call(b, "POST", runs, hello).body, `"subtype":"`+subtype+`"`)
	}
}
