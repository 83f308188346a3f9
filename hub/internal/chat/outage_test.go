package chat_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// An answer that ends while the database is away keeps its text and its tokens in the memory of the
// answers, and both are stored when the database is back, however long that takes: also if another
// hub, which still has the database, has ended the answer as that of a killed one.
func TestAnswersThatEndDuringAnOutage(t *testing.T) {
	t.Parallel()
	const size = 200 << 10 // more than an answer has without a charge
	for name, others := range map[string]bool{"one hub": false, "with another hub": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := postgres(t)
			l := lossyOf(t, database)
			short := func(c *config) { c.lease = 2 * time.Second }
			var log logtest.Buffer
			metered, metrics := meters(t)
			memory := func() float64 { return metrics()["chat.memory "] }
			s := open(t, l.url, short, metered, func(c *config) { c.logger = slog.New(slog.NewTextHandler(&log, nil)) })
			end := make(chan struct{})
			rest := strings.Repeat("word ", size/5)
			used := model.Usage{InputTokens: 1234, OutputTokens: 5678}
			s.deploy(modeltest.Start(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.Usage(used), modeltest.Text("Half "), modeltest.Gate(end), modeltest.Text(rest)),
				modeltest.Stream(modeltest.Text("More."))))
			watcher := open(t, database, short, quiet)
			watcher.endpoint.Store(s.endpoint.Load())
			if !others {
				require.NoError(t, watcher.service.Close())
			}
			ada := s.ada()
			path := session(ada)
			answer := send(t, ada, path, object{"message": "hello"})
			answer.until("partial_message")
			require.Eventually(t, func() bool { return messages(watcher.ada(), path)[1]["text"] != "" }, patience, 20*time.Millisecond)

			l.cut(true)
			close(end)
			require.Eventually(t, func() bool { return strings.Count(log.String(), "storing answers failed") >= 3 }, patience, 10*time.Millisecond)
			require.Greater(t, memory(), float64(size))
			if others {
				require.Eventually(t, func() bool { return watcher.number(`SELECT COUNT(*) FROM chat_runs`) == 0 }, patience, 20*time.Millisecond, "the other hub ends the answer")
				require.EqualValues(t, 1, watcher.counted("agent")[0]["estimates"])
			}
			require.Equal(t, "partial", messages(watcher.ada(), path)[1]["status"])
			l.cut(false)

			var stored object
			require.Eventually(t, func() bool { stored = messages(watcher.ada(), path)[1]; return stored["status"] == "completed" }, patience, 20*time.Millisecond)
			require.Equal(t, "Half "+rest, stored["text"])
			require.Equal(t, []any{1234.0, 5678.0}, []any{stored["usage"].(object)["input_tokens"], stored["usage"].(object)["output_tokens"]})
			require.NotContains(t, stored["usage"], "estimated")
			require.Eventually(t, func() bool { return memory() == 0 }, patience, 10*time.Millisecond)
			report := watcher.counted("agent")[0]
			require.Equal(t, []any{1.0, 1234.0, 5678.0}, []any{report["runs"], report["inputTokens"], report["outputTokens"]})
			require.NotContains(t, report, "estimates")
			require.Eventually(t, func() bool { return last(say(t, ada, path, "more")) == "completed" }, patience, 100*time.Millisecond)
			watcher.sizes(watcher.stored()...)
		})
	}
}
