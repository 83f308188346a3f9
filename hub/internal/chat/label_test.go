package chat_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/aigc/label"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// labels labels each answer in the same way.
type labels struct {
	mode aigc.Mode
	text string
}

func (l labels) Label(_ context.Context, tenant string) (*aigc.Marker, error) {
	return &aigc.Marker{Label: label.Label{Label: label.Generated, ProduceID: tenant}, Mode: l.mode, Text: l.text}, nil
}

func TestLabels(t *testing.T) {
	t.Parallel()
	const notice = "AI 生成"
	for _, mode := range []aigc.Mode{aigc.ModeOff, aigc.ModeHint, aigc.ModeAppend, aigc.ModePrepend} {
		t.Run(string(mode), func(t *testing.T) {
			s := open(t, sqlite(t), func(cfg *config) { cfg.Labels = labels{mode, notice} })
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Right."))))
			s.deploy(up)
			ada := s.ada()
			path := session(ada)
			events := say(t, ada, path, "hello")
			want := object{
				"Label": "1", "ContentProducer": "", "ProduceID": "acme", "ReservedCode1": "",
				"ContentPropagator": "", "PropagateID": "", "ReservedCode2": "",
			}
			require.Equal(t, want, events[0].data["aigc"])
			require.Equal(t, want, events[len(events)-2].data["aigc"])
			answer := messages(ada, path)[1]
			require.Equal(t, want, answer["aigc"])
			block := func(text string) any { return object{"type": "text", "text": text} }
			content, text := []any{block("Right.")}, "Right."
			switch mode {
			case aigc.ModeHint:
				require.Equal(t, notice, events[0].data["aigcNotice"])
			case aigc.ModeAppend:
				require.Equal(t, object{"type": "hub.notice", "position": "append", "text": notice}, events[len(events)-3].data)
				content, text = append(content, block(notice)), "Right.\n\n"+notice
			case aigc.ModePrepend:
				require.Equal(t, object{"type": "hub.notice", "position": "prepend", "text": notice}, events[1].data)
				content, text = append([]any{block(notice)}, content...), notice+"\n\nRight."
			case aigc.ModeOff:
			}
			if mode != aigc.ModeHint {
				require.NotContains(t, events[0].data, "aigcNotice")
			}
			require.Equal(t, content, answer["content"])
			require.Equal(t, text, answer["text"])

			s.deploy(up) // a runtime without the session
			say(t, ada, path, "again")
			require.NotContains(t, string(up.Await(t, 2).Body), "生成")
			require.Contains(t, string(up.Await(t, 2).Body), "Right.")
		})
	}
}

// A notice is that of something that a model has generated. The events of a run are not.
func TestNoticesOfAnswersWithoutText(t *testing.T) {
	t.Parallel()
	fault := "event: result\ndata: {\"subtype\":\"error\",\"is_error\":true,\"error_type\":\"server\",\"errors\":[\"no\"]}\n\n"
	system := "event: system\ndata: {\"subtype\":\"%s\",\"name\":\"files\",\"tool_name\":\"Bash\",\"message\":\"A warning.\"}\n\n"
	for name, row := range map[string]struct {
		events  string
		blocks  int
		notices int
	}{
		"nothing":   {fault, 0, 0},
		"an event":  {fmt.Sprintf(system, "mcp_status") + fault, 1, 0},
		"events":    {fmt.Sprintf(system, "warning") + fmt.Sprintf(system, "permission_denied") + fmt.Sprintf(system, "compact_boundary") + fault, 3, 0},
		"a thought": {"event: assistant\ndata: {\"message\":{\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\"}]}}\n\n" + fmt.Sprintf(system, "warning") + fault, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, sqlite(t), func(cfg *config) { cfg.Labels = labels{aigc.ModeAppend, "AI"} })
			s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) { write(row.events + "event: done\ndata: {}\n\n") }))
			ada := s.ada()
			path := session(ada)
			sent := 0
			for _, ev := range say(t, ada, path, "hello") {
				if ev.data["type"] == "hub.notice" {
					sent++
				}
			}
			require.Equal(t, row.notices, sent)
			answer := messages(ada, path)[1]
			require.Equal(t, "failed", answer["status"])
			require.Len(t, answer["content"], row.blocks+row.notices)
			require.Equal(t, row.notices > 0, answer["text"] == "AI")
		})
	}
}

// countedLabels counts the calls.
type countedLabels struct {
	labels
	calls *atomic.Int64
}

func (c countedLabels) Label(ctx context.Context, tenant string) (*aigc.Marker, error) {
	c.calls.Add(1)
	return c.labels.Label(ctx, tenant)
}

// noLabels is a tenant without labels, or a database that is unavailable.
type noLabels struct{ err error }

func (n noLabels) Label(context.Context, string) (*aigc.Marker, error) { return nil, n.err }

func TestAnswersWithoutLabels(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(cfg *config) { cfg.Labels = noLabels{} })
	s.deploy(nil)
	path := session(s.ada())
	require.NotContains(t, say(t, s.ada(), path, "hello")[0].data, "aigc")
	require.NotContains(t, messages(s.ada(), path)[1], "aigc")

	s = open(t, sqlite(t), func(cfg *config) { cfg.Labels = noLabels{wire.Unavailable} })
	s.deploy(nil)
	path = session(s.ada())
	s.ada().Post(path+"/messages", object{"message": "hello"}).Error(http.StatusServiceUnavailable, wire.Unavailable)
	require.Empty(t, messages(s.ada(), path), "no answer lacks its label")
}
