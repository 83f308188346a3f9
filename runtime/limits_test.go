package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// untilCancelled is a tool that ends with its context.
func untilCancelled() tool.Tool {
	return tool.New(tool.Spec{Name: "slow", ReadOnly: true}, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
}

func TestMetadataReachesTheLog(t *testing.T) {
	b := serve(t, nil, nil)
	b.blocking(t, `{"message":"hello","metadata":{"ticket":"T-1","tenant":"acme"}}`)
	require.Contains(t, b.awaitEnd(t.Context(), t), `"metadata":{"tenant":"acme","ticket":"T-1"}`)
	res := b.do(t, "POST", runs, `{"message":"hello"}`, "Accept", "application/json")
	require.Equal(t, http.StatusOK, res.status)
	require.Equal(t, 1, strings.Count(b.log.String(), `"metadata"`), "a run without metadata logs none")
}

func TestMetadataInTheLogIsLimited(t *testing.T) {
	metadata := map[string]string{"a": strings.Repeat("x", 300), "b" + strings.Repeat("y", 300): "long key",
		"c": strings.Repeat("é", 300)}
	for i := range 20 {
		metadata[fmt.Sprintf("k%02d", i)] = "v"
	}
	body, err := json.Marshal(map[string]any{"message": "hello", "metadata": metadata})
	require.NoError(t, err)
	b := serve(t, nil, nil)
	b.blocking(t, string(body))
	var line struct{ Metadata map[string]string }
	require.NoError(t, json.Unmarshal([]byte(b.awaitEnd(t.Context(), t)), &line))
	require.Len(t, line.Metadata, 16)
	require.Equal(t, strings.Repeat("x", 253)+"...", line.Metadata["a"])
	require.Contains(t, line.Metadata, "b"+strings.Repeat("y", 252)+"...")
	require.Equal(t, strings.Repeat("é", 126)+"...", line.Metadata["c"])
	require.Contains(t, line.Metadata, "k12")
	require.NotContains(t, line.Metadata, "k13", "the first in their order")
}

func TestHugeTimeoutDoesNotOverflow(t *testing.T) {
	for name, ms := range map[string]string{
		"the largest number":                      "9223372036854775807",
		"what overflows to less than a ms":        "18446744073710",
		"what overflows to less than a ms, again": "36893488147420",
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Wait(20*time.Millisecond), modeltest.Text("Hi.")))
			res, _ := serve(t, up, nil).blocking(t, `{"message":"hello","timeoutMs":`+ms+`}`)
			require.Equal(t, http.StatusOK, res.status, res.body)
		})
	}
}

func TestHostsSimilarToLocalhost(t *testing.T) {
	b := serve(t, nil, nil)
	for host, status := range map[string]int{
		"localhost": 200, "app.localhost": 200, "a.b.LOCALHOST:3000": 200, "app.localhost.": 200,
		"evillocalhost": 403, "evil-localhost:3000": 403, "localhost.evil.example": 403, "localhostx": 403,
		"127.0.0.1.localhost.example": 403,
	} {
		require.Equal(t, status, b.do(t, "GET", "/v1/agents", "", "Host", host).status, host)
	}
}

func TestToolTimeoutOfTheConfiguration(t *testing.T) {
	for name, change := range map[string]func(*runtime.Config){
		"of all agents": func(c *runtime.Config) { c.Limits.ToolTimeout = 20 * time.Millisecond },
		"of the agent": func(c *runtime.Config) {
			c.Limits.ToolTimeout, c.Agents[0].Limits.ToolTimeout = time.Hour, 20*time.Millisecond
		},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "slow", `{}`)),
				modeltest.Stream(modeltest.Text("Oh.")))
			b := serve(t, up, func(c *runtime.Config) {
				c.Tools = []tool.Tool{untilCancelled()}
				change(c)
			})
			// The default would be two minutes.
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			s := b.open(ctx, t, `{"message":"hello"}`)
			result := s.until("tool_result").data["result"].(map[string]any)
			require.Equal(t, "The call exceeded its time limit of 20ms and was stopped.", result["output"])
			require.Equal(t, true, result["is_error"])
			require.Equal(t, "success", s.until("result").data["subtype"], "only the call ends")
		})
	}
}

func TestToolOutputLimitOfTheConfiguration(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "greet", `{"name":"Ada Lovelace"}`)), modeltest.Stream(modeltest.Text("Oh.")))
	b := serve(t, up, func(c *runtime.Config) {
		c.Tools = []tool.Tool{greet()}
		c.Agents[0].AllowedTools = []string{"greet"}
		c.Limits.MaxToolOutputBytes = 10
	})
	result := b.open(t.Context(), t, `{"message":"hello"}`).until("tool_result").data["result"].(map[string]any)
	require.Equal(t, true, result["truncated"])
	require.NotContains(t, result["output"], "Lovelace")
	require.NotContains(t, string(up.Await(t, 2).Body[len(up.Requests()[0].Body):]), "Hello, Ada Lovelace",
		"nor does the model see it")
}

func TestRunTimeoutOfTheConfiguration(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Half an"), modeltest.Hang()))
	b := serve(t, up, func(c *runtime.Config) {
		c.Limits.RunTimeout = 20 * time.Millisecond
		c.Limits.LLMIdleTimeout = 2 * time.Minute // what would end the run otherwise
	})
	result := b.open(t.Context(), t, `{"message":"hello"}`).until("result").data
	require.Equal(t, "error_during_execution", result["subtype"])
	require.Equal(t, "timeout", result["error_type"])
}

func TestNumbersOfAnAgentReachUpstream(t *testing.T) {
	warm := 0.25
	for name, row := range map[string]struct {
		protocol modeltest.Protocol
		agent    agent.Agent
		want     map[string]any
	}{
		"anthropic": {modeltest.Anthropic, agent.Agent{Temperature: &warm, MaxOutputTokens: 1234},
			map[string]any{"temperature": 0.25, "max_tokens": 1234.0, "thinking": nil}},
		"anthropic that thinks": {modeltest.Anthropic,
			agent.Agent{Thinking: agent.Thinking{BudgetTokens: 2048}, MaxOutputTokens: 5000},
			map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 2048.0}, "max_tokens": 5000.0}},
		"anthropic that decides itself": {modeltest.Anthropic,
			agent.Agent{Thinking: agent.Thinking{Type: agentvalue.ThinkingAdaptive, Effort: "low"}, Temperature: &warm},
			map[string]any{"thinking": map[string]any{"type": "adaptive"}, "temperature": nil,
				"output_config": map[string]any{"effort": "low"}}},
		"openai with effort": {modeltest.OpenAI, agent.Agent{Thinking: agent.Thinking{Type: agentvalue.ThinkingAdaptive, Effort: "high"}},
			map[string]any{"reasoning_effort": "high"}},
		"openai with a budget": {modeltest.OpenAI, agent.Agent{Thinking: agent.Thinking{BudgetTokens: 2048}},
			map[string]any{"reasoning_effort": nil}},
		"openai": {modeltest.OpenAI, agent.Agent{Temperature: &warm, MaxOutputTokens: 1234},
			map[string]any{"temperature": 0.25, "max_tokens": 1234.0}},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, row.protocol, modeltest.Stream(modeltest.Text("Hi.")))
			b := serve(t, up, func(c *runtime.Config) {
				a := row.agent
				a.ID, a.Model = "helper", "m"
				a.Provider = agent.Provider{Protocol: string(row.protocol), BaseURL: agent.Secret(up.URL)}
				c.Agents = []agent.Agent{a}
			})
			res, _ := b.blocking(t, `{"message":"hello"}`)
			require.Equal(t, http.StatusOK, res.status, res.body)
			var sent map[string]any
			require.NoError(t, json.Unmarshal(up.Requests()[0].Body, &sent))
			for field, want := range row.want {
				require.Equal(t, want, sent[field], field)
			}
		})
	}
}

// TestEarlierChecksComeFirst has requests with two errors each. The first check reports its error.
func TestEarlierChecksComeFirst(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		c.Limits.MaxMessageBytes = 100
		c.Agents = append(c.Agents, agent.Agent{ID: "broken", Model: "m", Provider: agent.Provider{Protocol: "anthropic"}})
	})
	locked := serve(t, nil, func(c *runtime.Config) { c.APIKeys = []string{"key"} })
	const nobody, unavailable, badID = "/v1/agents/nobody/runs", "/v1/agents/broken/runs", `{"message":"x","runId":"run-1"}`
	for name, row := range map[string]struct {
		b          *bench
		path, body string
		headers    []string
		want       string
	}{
		"host, then origin":            {b, runs, hello, []string{"Host", "evil.example", "Sec-Fetch-Site", "cross-site"}, "host name"},
		"origin, then key":             {locked, runs, hello, []string{"Sec-Fetch-Site", "cross-site"}, "cross-origin"},
		"key, then path":               {locked, "/v1/nothing", hello, nil, "Unauthorized"},
		"origin, then path":            {b, "/v1/nothing", hello, []string{"Sec-Fetch-Site", "cross-site"}, "cross-origin"},
		"key, then method":             {locked, "/v1/agents", hello, nil, "Unauthorized"},
		"size, then agent":             {b, nobody, strings.Repeat(" ", 101), nil, "Request body too large"},
		"body, then agent":             {b, nobody, `{}`, nil, "Invalid request"},
		"body, then Accept":            {b, runs, `{}`, []string{"Accept", "text/html"}, "Invalid request"},
		"agent, then Accept":           {b, nobody, hello, []string{"Accept", "text/html"}, "Agent not found"},
		"availability, then Accept":    {b, unavailable, hello, []string{"Accept", "text/html"}, "Agent unavailable"},
		"availability, then run id":    {b, unavailable, badID, nil, "Agent unavailable"},
		"Accept, then form of run ids": {b, runs, badID, []string{"Accept", "text/html"}, "Not acceptable"},
	} {
		require.Contains(t, row.b.do(t, "POST", row.path, row.body, row.headers...).body, row.want, name)
	}
}
