package hub_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// What the upstream of a vendor bills for one answer, whether or not a client receives its end. The
// texts have four bytes for each token.
const (
	billedInput  = 500
	billedOutput = 1500
	lastWord     = " the-last-word"
)

// vendor is an upstream that bills each call that it has begun, and reports that only at its end,
// which it never sends.
type vendor struct {
	*modeltest.Upstream
	mu    sync.Mutex
	calls int
	began chan struct{} // has an element for each answer without an end
}

// startVendor starts a vendor. An agent calls a tool, or a subagent, in a first response that has
// an end, unless its name is "".
func startVendor(t *testing.T, wire modeltest.Protocol, tool string) *vendor {
	v := &vendor{began: make(chan struct{}, 100)}
	input := map[string]string{"Glob": `{"pattern":"*.none"}`, "Task": `{"description":"d","prompt":"` + strings.Repeat("ask ", billedInput) + `","subagent_type":"sub"}`}[tool]
	answer := strings.Repeat("word ", (billedOutput*4-len(lastWord))/5+1) + lastWord
	billed := modeltest.Usage(model.Usage{InputTokens: billedInput, OutputTokens: billedOutput})
	v.Upstream = modeltest.Start(t, wire, modeltest.Repeat(modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
		v.mu.Lock()
		v.calls++
		v.mu.Unlock()
		inSub := bytes.Contains(r.Body, []byte("You are the subagent"))
		if tool != "" && !inSub && !bytes.Contains(r.Body, []byte("call-1")) {
			return modeltest.Stream(billed, modeltest.ToolCall("call-1", tool, input))
		}
		select {
		case v.began <- struct{}{}:
		default:
		}
		return modeltest.Stream(billed, modeltest.Text(answer), modeltest.Hang())
	})))
	return v
}

// bill returns the tokens of all calls.
func (v *vendor) bill() float64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return float64(v.calls * (billedInput + billedOutput))
}

// Answers whose clients have read the whole text and leave before its end, or whose time ends
// before it, use up a budget, however they are requested: the usage is at least what the upstream
// bills.
func TestAnswersWithoutTheirEndsUseABudget(t *testing.T) {
	t.Parallel()
	const tries, hard = 20, 10_000
	for _, row := range []struct {
		face, end, tool, protocol string
	}{
		{"chat", "leave", "", agent.ProtocolOpenAI},
		{"chat", "timeout", "", agent.ProtocolOpenAI},
		{"runtime", "leave", "", agent.ProtocolOpenAI},
		{"runtime", "timeout", "", agent.ProtocolOpenAI},
		{"blocking", "leave", "", agent.ProtocolOpenAI},
		{"blocking", "timeout", "", agent.ProtocolOpenAI},
		{"chat", "leave", "Task", agent.ProtocolOpenAI},
		{"runtime", "timeout", "Task", agent.ProtocolOpenAI},
		{"chat", "timeout", "Glob", agent.ProtocolOpenAI},
		{"runtime", "leave", "Glob", agent.ProtocolOpenAI},
		{"chat", "leave", "", agent.ProtocolAnthropic},
		{"chat", "timeout", "Task", agent.ProtocolAnthropic},
		{"runtime", "leave", "Task", agent.ProtocolAnthropic},
		{"runtime", "timeout", "Glob", agent.ProtocolAnthropic},
		{"completions", "leave", "", agent.ProtocolOpenAI},
		{"responses", "timeout", "", agent.ProtocolAnthropic},
		{"responses", "leave", "Glob", agent.ProtocolOpenAI},
		{"blocking completions", "leave", "", agent.ProtocolAnthropic},
		{"blocking completions", "timeout", "Task", agent.ProtocolOpenAI},
		{"blocking responses", "leave", "", agent.ProtocolOpenAI},
		{"runtime completions", "leave", "", agent.ProtocolOpenAI},
		{"runtime responses", "leave", "", agent.ProtocolAnthropic},
		{"runtime responses", "timeout", "", agent.ProtocolOpenAI},
	} {
		t.Run(strings.TrimSpace(fmt.Sprintln(row.face, row.end, row.tool, row.protocol)), func(t *testing.T) {
			t.Parallel()
			v := startVendor(t, map[string]modeltest.Protocol{agent.ProtocolOpenAI: modeltest.OpenAI, agent.ProtocolAnthropic: modeltest.Anthropic}[row.protocol], row.tool)
			driver := &deploytest.Memory{Serve: func(req deploy.Request) (http.Handler, error) {
				c := &req.Config
				c.Provider = agent.Provider{Protocol: row.protocol, BaseURL: agent.Secret(v.URL), APIKey: "k"}
				c.Subagents = map[string]agent.Subagent{"sub": {Description: "d", Prompt: "You are the subagent", Model: "small", Tools: []string{}}}
				if row.end == "timeout" {
					c.Limits.RunTimeout = time.Second
				}
				return runtimeWithFile(t, req)
			}}
			t.Cleanup(driver.Close)
			s := open(t, sqlite(t), func(cfg *hub.Config) { cfg.Deployer = driver })
			admin := s.setUp()
			s.call("POST", agents, admin, `{"name":"helper","providerId":"demo","model":"demo"}`).want(http.StatusCreated)
			key := s.deploy(admin, "helper")
			s.call("PUT", budgets+"/agent/helper", admin, fmt.Sprintf(`{"period":"month","unit":"tokens","hard":%d}`, hard)).want(http.StatusOK)
			totals := func() map[string]any {
				return s.call("GET", "/api/v1/admin/usage", admin, "").want(http.StatusOK)["totals"].(map[string]any)
			}
			// Only the text of the agent itself reaches a client before its end.
			hidden := row.end == "leave" && (strings.HasPrefix(row.face, "blocking") || row.tool == "Task")
			runs := 0
			for ; runs < tries; runs++ {
				if s.abandon(t, v, row.face, row.end == "leave", hidden, admin, key) == http.StatusTooManyRequests {
					break
				}
				require.Eventually(t, func() bool { return totals()["runs"] == float64(runs+1) }, time.Minute, 10*time.Millisecond)
			}
			require.Less(t, runs, tries, "the budget refuses the others")
			used := totals()
			require.EqualValues(t, runs, used["runs"])
			require.GreaterOrEqual(t, used["estimates"], float64(runs))
			sum := used["inputTokens"].(float64) + used["outputTokens"].(float64) + used["cacheReadTokens"].(float64) + used["cacheWriteTokens"].(float64)
			require.GreaterOrEqual(t, sum, float64(hard-hard/100))
			if !hidden {
				require.GreaterOrEqual(t, sum, v.bill())
			}
		})
	}
}

// abandon starts a run, and reads it to the last word, or to its end if the client does not leave.
// With a text that is hidden, the client leaves when the upstream sends it. It returns the status.
func (s *server) abandon(t *testing.T, v *vendor, face string, leave, hidden bool, admin, key string) int {
	t.Helper()
	question := strings.Repeat("ask ", billedInput)
	path, body, header := "/runtime/helper/v1/agents/helper/runs", `{"message":"`+question+`"}`, http.Header{"X-Api-Key": {key}}
	kind := face[strings.LastIndex(face, " ")+1:]
	switch {
	case kind == "completions", kind == "responses":
		path, header = openAI, http.Header{"Authorization": {"Bearer " + admin}}
		if strings.HasPrefix(face, "runtime") {
			path, header = "/runtime/helper"+openAI, http.Header{"Authorization": {"Bearer " + key}}
		}
		stream := fmt.Sprint(!strings.HasPrefix(face, "blocking"))
		body = `{"model":"helper","stream":` + stream + `,"input":"` + question + `","messages":[{"role":"user","content":"` + question + `"}]}`
		path += map[string]string{"completions": "/chat/completions", "responses": "/responses"}[kind]
	case face == "chat":
		const chats = "/api/v1/agents/helper/chat/sessions"
		path = chats + "/" + s.call("POST", chats, admin, "").want(http.StatusCreated)["id"].(string) + "/messages"
		header = http.Header{"Authorization": {"Bearer " + admin}}
	case !leave:
		body = `{"message":"` + question + `","timeoutMs":1000}`
	}
	header.Set("Content-Type", "application/json")
	if face == "blocking" {
		header.Set("Accept", "application/json")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = header
	if hidden {
		go func() {
			select {
			case <-v.began:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	res, err := s.client.Do(req)
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
		return 0
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	if res.StatusCode == http.StatusTooManyRequests || !leave {
		_, err := io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		return res.StatusCode
	}
	require.Equal(t, http.StatusOK, res.StatusCode)
	if hidden {
		_, _ = io.Copy(io.Discard, res.Body) // the client leaves in the meantime
		return res.StatusCode
	}
	lines := bufio.NewReader(res.Body)
	for line := ""; !strings.Contains(line, strings.TrimSpace(lastWord)) && err == nil; {
		line, err = lines.ReadString('\n')
	}
	return res.StatusCode
}
