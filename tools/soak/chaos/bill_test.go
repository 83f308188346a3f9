package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	payingAgent = "paying" // its upstream reports tokens only at the end of an answer

	// reserve is that of each run, which is more than the upstream bills for one call.
	reserve = 2000

	// maxEstimate is more than the prompt, the tools and the answer of one run.
	maxEstimate = 100_000

	subagents  = 9
	lastWord   = "the-last-word"
	inSubagent = "You are a subagent."

	// Questions of this kind are answered without an end, and by subagents.
	endless = "chat-1"
	tasks   = "chat-8"
)

// bill has what upstreams bill: each call that they have begun, whatever its caller receives.
type bill struct {
	mu     sync.Mutex // guards the fields below
	runs   int64      // first calls of runs
	tokens int64
}

// add adds a call. first reports whether it is the first one of its run.
func (b *bill) add(u wire.Usage, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens += sum(u)
	if first {
		b.runs++
	}
}

func sum(u wire.Usage) int64 {
	return u.InputTokens + u.OutputTokens + u.CacheCreationInputTokens + u.CacheReadInputTokens
}

// beside is the end of an answer of 200 tokens, of which 160 are thinking, which the server counts
// next to those of the completion.
const beside = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":900,"completion_tokens":40,"total_tokens":1100,"completion_tokens_details":{"reasoning_tokens":160}}}

data: [DONE]

`

// startPaying starts the upstream of the paying agent.
func startPaying(t *testing.T, b *bill) *modeltest.Upstream {
	billed := wire.Usage{InputTokens: 900, OutputTokens: 200}
	text := modeltest.Text("A text ", "up to ", lastWord)
	return modeltest.Start(t, modeltest.OpenAI, modeltest.Repeat(modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
		sub, called := bytes.Contains(r.Body, []byte(inSubagent)), bytes.Contains(r.Body, []byte("tool_call_id"))
		b.add(billed, !sub && !called)
		switch {
		case bytes.Contains(r.Body, []byte(endless)):
			return modeltest.Stream(text, modeltest.Hang())
		case bytes.Contains(r.Body, []byte(tasks)) && !sub && !called:
			steps := []modeltest.Step{modeltest.Usage(model.Usage(billed))}
			for i := range subagents {
				input := fmt.Sprintf(`{"description":"d","prompt":"p","subagent_type":"s%d"}`, i)
				steps = append(steps, modeltest.ToolCall(fmt.Sprint("call", i), "Task", input))
			}
			return modeltest.Stream(steps...)
		}
		return modeltest.Stream(text, modeltest.Verbatim(beside))
	})))
}

// deployPaying deploys the paying agent. Its subagents have models with long names, so that the
// report of a run with all of them has more than a KiB.
func (in *installation) deployPaying(t *testing.T, c *client) {
	in.paying = startPaying(t, &in.bill)
	var provider struct{ ID string }
	require.NoError(t, c.call(t.Context(), http.MethodPost, "/api/v1/admin/providers",
		object{"name": payingAgent, "protocol": "openai", "baseUrl": in.paying.URL, "apiKey": "k"}, &provider))
	subs := object{}
	for i := range subagents {
		subs[fmt.Sprint("s", i)] = object{"description": "d", "prompt": inSubagent, "model": strings.Repeat("m", 150) + fmt.Sprint(i), "tools": []string{}}
	}
	require.NoError(t, c.call(t.Context(), http.MethodPost, "/api/v1/admin/agents",
		object{"name": payingAgent, "providerId": provider.ID, "model": "m", "tools": []string{}, "subagents": subs}, nil))
	require.NoError(t, c.call(t.Context(), http.MethodPost, "/api/v1/admin/agents/"+payingAgent+"/deploy", nil, nil))
	require.NoError(t, in.await(t.Context(), c, payingAgent, "running"), in.logs())
	c.noteKey(t, payingAgent)
}

// noteKey reads the API key of a deployment, and gives the agent a budget that is never used up.
func (c *client) noteKey(t *testing.T, agent string) {
	var deployment struct{ APIKey string }
	require.NoError(t, c.call(t.Context(), http.MethodGet, "/api/v1/admin/agents/"+agent+"/deploy", nil, &deployment))
	c.keys[agent] = deployment.APIKey
	require.NoError(t, c.call(t.Context(), http.MethodPut, "/api/v1/admin/budgets/agent/"+agent,
		object{"period": "month", "unit": "tokens", "hard": 1e12, "reserve": reserve}, nil))
}

// checkBill requires that the hub has counted what the upstreams bill: exactly, or at least that,
// if something is marked as estimated. No run may be in progress.
func (k *checker) checkBill(ctx context.Context) {
	var last error
	_ = eventually(ctx, patience, func(ctx context.Context) error { // the last error is a finding
		last = k.compareBill(ctx)
		return last
	})
	if last != nil {
		k.find("%v", last)
	}
}

func (k *checker) compareBill(ctx context.Context) error {
	rows, err := k.usageReport(ctx, "agent")
	if err != nil {
		return err
	}
	var used counts
	for _, row := range rows {
		used = used.add(row)
	}
	tokens := used.InputTokens + used.OutputTokens + used.CacheReadTokens + used.CacheWriteTokens
	k.in.bill.mu.Lock()
	defer k.in.bill.mu.Unlock()
	b := &k.in.bill
	if used.Runs < b.runs || tokens < b.tokens || tokens > b.tokens+used.Estimates*maxEstimate {
		return fmt.Errorf("the upstreams bill %d runs with %d tokens, and the hub has counted %d runs with %d, of which %d are estimated",
			b.runs, b.tokens, used.Runs, tokens, used.Estimates)
	}
	k.in.compared = fmt.Sprintf("%d runs with %d tokens were billed, and %d with %d counted, of which %d are estimated",
		b.runs, b.tokens, used.Runs, tokens, used.Estimates)
	return nil
}

// resultOf returns the text of an event of the result, or "".
func resultOf(data []byte) string {
	var result struct{ Subtype, Result string }
	if json.Unmarshal(data, &result) != nil || result.Subtype != "success" {
		return ""
	}
	return result.Result
}
