package chat_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// The owner of a chat and the admins of its organization read what happened in it. Others do not,
// and a hub without the runtime says so.
func TestTranscript(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada, root := s.ada(), s.As("acme", "max", "admin")
		path := session(ada)
		ada.Get(path+"/transcript").Error(http.StatusNotFound, wire.NotFound)
		say(t, ada, path, "hello")
		say(t, ada, path, "again")
		say(t, ada, path, "once more")
		everyone := strings.Replace(path, sessions, admin, 1)
		for _, read := range []func(query string) apitest.Object{
			func(query string) apitest.Object { return ada.Get(path + "/transcript" + query).Want(http.StatusOK) },
			func(query string) apitest.Object {
				return root.Get(everyone + "/transcript" + query).Want(http.StatusOK)
			},
		} {
			for _, size := range []int{1, 2} {
				var types []string
				first := fmt.Sprint("?page_size=", size)
				for query := first; query != ""; {
					page := read(query)
					require.LessOrEqual(t, len(page["items"].([]any)), size)
					for _, item := range page["items"].([]any) {
						types = append(types, item.(apitest.Object)["type"].(string))
					}
					query = ""
					if next, ok := page["next"].(string); ok {
						query = first + "&cursor=" + next
					}
				}
				run := []string{"event", "message", "message", "event", "event"} // init, question, answer, its tokens, the end
				require.Equal(t, slices.Repeat(run, 3), types)
			}
		}
		first := ada.Get(path + "/transcript?page_size=1").Want(http.StatusOK)["next"].(string)
		for _, query := range []string{"page=2", "cursor=1", "cursor=0" + first, "cursor=0" + first[1:], "cursor=" + first + "0"} {
			ada.Get(path+"/transcript?"+query).Error(http.StatusBadRequest, wire.InvalidRequest)
		}
		s.As("acme", "bob", "member").Get(everyone+"/transcript").Error(http.StatusNotFound, wire.NotFound)
		s.As("globex", "eve", "admin").Get(everyone+"/transcript").Error(http.StatusNotFound, wire.NotFound)
		up := *s.endpoint.Load()
		s.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
		ada.Get(path+"/transcript").Error(http.StatusBadGateway, code.UpstreamFailed)
		s.endpoint.Store(nil)
		ada.Get(path+"/transcript").Error(http.StatusConflict, code.AgentNotDeployed)
		s.endpoint.Store(&up)
		s.exec(`UPDATE chat_sessions SET runtime_session = 'lost'`)
		ada.Get(path+"/transcript?cursor="+first).Error(http.StatusBadRequest, wire.InvalidRequest)
		ada.Get(path+"/transcript").Error(http.StatusNotFound, wire.NotFound)
	})
}

// What a model has generated is labeled in a transcript as in the messages of the chat.
func TestLabelsOfTranscripts(t *testing.T) {
	t.Parallel()
	const notice = "AI 生成"
	for _, mode := range []aigc.Mode{aigc.ModeOff, aigc.ModeHint, aigc.ModeAppend, aigc.ModePrepend} {
		t.Run(string(mode), func(t *testing.T) {
			s := open(t, postgres(t), func(cfg *config) { cfg.Labels = labels{mode, notice} })
			s.deploy(modeltest.Start(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.ToolCall("t1", "Task", `{"description":"d","prompt":"p","subagent_type":"s"}`)),
				modeltest.Stream(modeltest.Text("found")), modeltest.Stream(modeltest.Text("Right."))),
				func(a *agent.Agent) { a.Subagents = map[string]agent.Subagent{"s": {Description: "d", Prompt: "p"}} })
			ada := s.ada()
			path := session(ada)
			say(t, ada, path, "hello")
			s.exec(`UPDATE chat_messages SET aigc = REPLACE(aigc, '"acme"', '"as stored"')`)
			answer := messages(ada, path)[1]
			require.Equal(t, "as stored", answer["aigc"].(object)["ProduceID"])
			part := mode == aigc.ModeAppend || mode == aigc.ModePrepend
			var texts []string
			for _, item := range ada.Get(path + "/transcript").Want(http.StatusOK)["items"].([]any) {
				entry := item.(object)
				require.Equal(t, answer["runId"], entry["runId"])
				content, _ := entry["content"].([]any)
				event, _ := entry["event"].(object)
				var kinds []string
				for _, block := range content {
					kinds = append(kinds, fmt.Sprint(block.(object)["type"], block.(object)["text"] == notice))
				}
				generated := entry["role"] == "assistant" || len(kinds) > 0 && kinds[0] == "tool_resultfalse" || event["parent_tool_use_id"] != nil
				if !generated {
					require.NotContains(t, entry, "aigc")
					require.NotContains(t, entry, "aigcNotice")
					continue
				}
				require.Equal(t, answer["aigc"], entry["aigc"])
				require.Equal(t, part && entry["role"] != "assistant", entry["aigcNotice"] == notice)
				texts = append(texts, strings.Join(kinds, " "))
			}
			call, result, last := "tool_usefalse", "tool_resultfalse", "textfalse"
			switch mode {
			case aigc.ModeAppend:
				call, last = call+" texttrue", last+" texttrue"
			case aigc.ModePrepend:
				call, last = "texttrue "+call, "texttrue "+last
			}
			require.Equal(t, []string{call, "", result, last}, texts, "the second is an event of the subagent")
		})
	}
}

// The entries of a runtime that names no run, and a summary, have a label too.
func TestLabelsOfOtherTranscripts(t *testing.T) {
	t.Parallel()
	for mode, want := range map[aigc.Mode]string{
		aigc.ModeOff: "It was right.", aigc.ModeAppend: "It was right.\n\nAI", aigc.ModePrepend: "AI\n\nIt was right.",
	} {
		t.Run(string(mode), func(t *testing.T) {
			var calls atomic.Int64
			s := open(t, sqlite(t), func(cfg *config) { cfg.Labels = countedLabels{labels{mode, "AI"}, &calls} })
			s.deploy(nil)
			ada := s.ada()
			require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed("s1", day1))))) // with an answer without a label
			path := sessions + "/s1"
			say(t, ada, path, "hello")
			before := calls.Load()
			s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"sessionId":"s","agentId":"helper","createdAt":"2026-01-02T03:04:05Z","total":3,"entries":[
					{"seq":1,"type":"message","role":"user","content":[{"type":"text","text":"a question"}]},
					{"seq":2,"type":"message","role":"assistant","content":[{"type":"text","text":"Right."}]},
					{"seq":3,"type":"compaction","summary":"It was right.","kept":1}]}`)
			}))
			items := ada.Get(path + "/transcript").Want(http.StatusOK)["items"].([]any)
			require.NotContains(t, items[0], "aigc")
			require.Contains(t, items[1], "aigc")
			require.Len(t, items[1].(object)["content"], len(strings.Split(want, "\n\n")))
			require.Contains(t, items[2], "aigc")
			require.Equal(t, want, items[2].(object)["summary"])
			require.Equal(t, before+1, calls.Load(), "of all entries")
		})
	}
}
