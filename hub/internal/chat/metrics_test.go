package chat_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// withMetrics opens a server whose metrics the function returns, by their names without a prefix
// and the values of their attributes. A histogram has the number of its values.
func withMetrics(t *testing.T, change ...func(*config)) (*server, func() map[string]float64) {
	t.Helper()
	metered, metrics := meters(t)
	return open(t, sqlite(t), append(change, metered)...), metrics
}

// meters returns a change of a configuration, and the metrics of its server.
func meters(t *testing.T) (change func(*config), metrics func() map[string]float64) {
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	change = func(c *config) { c.meters, c.push.MeterProvider = provider, provider }
	return change, func() map[string]float64 {
		t.Helper()
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		got := map[string]float64{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				add := func(set attribute.Set, value float64) {
					got[strings.TrimPrefix(m.Name, "agenthost.hub.")+" "+set.Encoded(attribute.DefaultEncoder())] = value
				}
				switch data := m.Data.(type) {
				case metricdata.Gauge[float64]:
					for _, p := range data.DataPoints {
						add(p.Attributes, p.Value)
					}
				case metricdata.Sum[int64]:
					for _, p := range data.DataPoints {
						add(p.Attributes, float64(p.Value))
					}
				case metricdata.Histogram[float64]:
					for _, p := range data.DataPoints {
						add(p.Attributes, float64(p.Count))
					}
				}
			}
		}
		return got
	}
}

// Each answer counts once, with the reason of a failure.
func TestMetricsOfAnswers(t *testing.T) {
	t.Parallel()
	s, metrics := withMetrics(t)
	ada := s.ada()
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Text(" two.")), modeltest.Status(429),
		modeltest.Stream(modeltest.Text("Half"), modeltest.Hang()), modeltest.Stream(modeltest.Text("Half"), modeltest.Hang()))
	s.deploy(up)
	good := *s.endpoint.Load()
	say(t, ada, session(ada), "completed")
	say(t, ada, session(ada), "run")
	path := session(ada)
	answer := send(t, ada, path, object{"message": "cancelled"})
	answer.until("partial_message")
	require.Equal(t, 1.0, metrics()["chats.active "])
	ada.Post(path+"/cancel", nil).Want(http.StatusAccepted)
	answer.rest()
	answer = send(t, ada, session(ada), object{"message": "hub"})
	answer.until("partial_message")
	s.exec(`DELETE FROM chat_runs`)
	answer.rest()

	respond := func(f http.HandlerFunc) deployment.Endpoint { s.serve(f); return *s.endpoint.Load() }
	status := func(code int) deployment.Endpoint {
		return respond(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); w.WriteHeader(code) })
	}
	gate := make(chan struct{})
	for _, row := range []struct {
		kind string
		at   deployment.Endpoint
	}{
		{"rejected", deployment.Endpoint{URL: good.URL, APIKey: "wrong", AgentID: "helper"}},
		{"rejected", status(http.StatusRequestEntityTooLarge)},
		{"unreachable", deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"}},
		{"busy", status(http.StatusServiceUnavailable)},
		{"busy", status(http.StatusTooManyRequests)},
		{"lost", respond(hostile(func(write func(string) bool, _ <-chan struct{}) { write(fmt.Sprintf(partial, "a")) }))},
		{"too_long", respond(hostile(func(write func(string) bool, _ <-chan struct{}) {
			for range 64 {
				write(fmt.Sprintf(partial, strings.Repeat("x", 16<<10)))
			}
			<-gate
			write(events("assistant", said("short")))
			<-gate
			for write(fmt.Sprintf(partial, strings.Repeat("x", 1<<20))) {
			}
		}))},
	} {
		s.endpoint.Store(&row.at)
		res, err := http.DefaultClient.Do(ada.Request(http.MethodPost, session(ada)+"/messages", object{"message": row.kind}))
		require.NoError(t, err)
		if row.kind == "too_long" {
			const text, free = 1 << 20, 64 << 10
			require.Eventually(t, func() bool { return metrics()["chat.memory "] >= 2*text-free }, patience, 20*time.Millisecond, "the text twice")
			require.Less(t, metrics()["chat.memory "], 3.0*text-free)
			gate <- struct{}{}
			require.Eventually(t, func() bool { return metrics()["chat.memory "] == 0 }, patience, 20*time.Millisecond, "of a short text")
			close(gate)
		}
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
	s.As("acme", "zoe", "member").Post(session(ada)+"/messages", object{"message": "no session"}).Error(http.StatusNotFound, wire.NotFound)
	want := map[string]float64{
		"chats agent=helper,outcome=completed,tenant=acme": 1, "chats agent=helper,outcome=cancelled,tenant=acme": 1,
		"chats agent=helper,outcome=failed,tenant=acme": 9, "chat.duration agent=helper,tenant=acme": 11,
		"chat.first_token.duration agent=helper,tenant=acme": 5,
		"chats.active ": 0, "chats.unsaved ": 0, "chat.memory ": 0,
	}
	for kind, n := range map[string]float64{
		"run": 1, "hub": 1, "rejected": 2, "unreachable": 1, "busy": 2, "lost": 1, "too_long": 1,
	} {
		want["runtime.errors agent=helper,kind="+kind+",tenant=acme"] = n
	}
	got := metrics()
	tokens := 0.0 // those of the cancelled answer are an estimate
	for name, n := range got {
		if strings.HasPrefix(name, "tokens agent=helper,") && strings.HasSuffix(name, "type=output") {
			tokens += n
		}
		if !strings.HasPrefix(name, "chat") && !strings.HasPrefix(name, "runtime.") {
			delete(got, name)
		}
	}
	require.Equal(t, want, got)
	require.GreaterOrEqual(t, tokens, 6.0)
	require.NoError(t, s.service.Close())
	require.NotContains(t, metrics(), "chats.active ", "the metrics end with the service")
}

// A runtime that does not accept a run in time is slow, and one that sends nothing is idle. The
// time to accept a run does not bound the answer.
func TestMetricsOfSlowRuntimes(t *testing.T) {
	t.Parallel()
	for kind, row := range map[string]struct {
		limits  relay.Config
		runtime http.HandlerFunc
	}{
		"slow": {relay.Config{OpenTimeout: 200 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		"idle": {relay.Config{IdleTimeout: 200 * time.Millisecond, SaveEvery: 20 * time.Millisecond}, hostile(func(write func(string) bool, gone <-chan struct{}) {
			write(fmt.Sprintf(partial, "a"))
			<-gone
		})},
		"too_long": {relay.Config{OpenTimeout: time.Second, RunTimeout: 2 * time.Second, SaveEvery: 20 * time.Millisecond}, hostile(func(write func(string) bool, _ <-chan struct{}) {
			for write(": ping\n\n") {
			}
		})},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, metrics := withMetrics(t, func(c *config) { c.Relay = row.limits })
			s.serve(row.runtime)
			s.ada().Post(session(s.ada())+"/messages", object{"message": "hello"})
			require.Equal(t, 1.0, metrics()["runtime.errors agent=helper,kind="+kind+",tenant=acme"])
		})
	}
}

// everyAgent is a catalog that has every agent but one.
type everyAgent struct{}

func (everyAgent) AgentEnabled(_ context.Context, _ api.Caller, name string) (bool, error) {
	if name == "nobody" {
		return false, wire.NotFound
	}
	return true, nil
}

// A pushed session counts for its agent, if it exists. Beyond 1000 agents, it counts for no
// certain one.
func TestMetricsOfPushes(t *testing.T) {
	t.Parallel()
	s, metrics := withMetrics(t, func(c *config) { c.push.Catalog = everyAgent{} })
	ada := s.ada()
	empty := func(id, agent, updated string) object {
		return pushed(id, updated, "agent_name", agent, "messages", []object{})
	}
	ada.Post(push, body(empty("s", "a", day1), empty("s", "a", day2), empty("s", "a", day2), empty("s", "a", day1), empty("/", "a", day1),
		empty("n", "nobody", day1))).Want(http.StatusOK)
	want := map[string]float64{
		"created": 1, "updated": 1, "unchanged": 1, "stale": 1, "invalid": 1,
	}
	got := metrics()
	for outcome, n := range want {
		require.Equal(t, n, got["pushed.sessions agent=a,outcome="+outcome+",tenant=acme"], outcome)
	}
	require.Equal(t, 1.0, got["pushed.sessions agent=other,outcome=invalid,tenant=other"])
	for i := range 21 {
		var all []object
		for j := range 50 {
			name := fmt.Sprint("b", i*50+j)
			all = append(all, empty(name, name, day1))
		}
		ada.Post(push, body(all...)).Want(http.StatusOK)
	}
	got = metrics()
	require.Equal(t, 1.0, got["pushed.sessions agent=b998,outcome=created,tenant=acme"])
	require.Equal(t, 51.0, got["pushed.sessions agent=other,outcome=created,tenant=other"])
}

// A recorded request has a span for its answer, with the attributes of the semantic conventions.
func TestSpansOfAnswers(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(
			modeltest.Usage(model.Usage{InputTokens: 100, CacheReadInputTokens: 20, CacheCreationInputTokens: 3, OutputTokens: 9}), modeltest.Text("One.")),
			modeltest.Status(429), modeltest.Stream(modeltest.Text("Half"), modeltest.Hang()))
	}
	with(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		id := path[len(sessions)+1:]
		recorder := tracetest.NewSpanRecorder()
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
		ctx, parent := tracer.Start(t.Context(), "request")
		run := func() {
			answer, _, err := s.service.Send(ctx, ada.Caller, "helper", id, wire.ChatMessageRequest{Message: "hello"})
			require.NoError(t, err)
			require.NoError(t, answer.Serve(httptest.NewRecorder()))
		}
		run()
		run()
		busy := send(t, ada, path, object{"message": "hello"}) // its request has no span
		busy.until("partial_message")
		_, _, err := s.service.Send(ctx, ada.Caller, "helper", id, wire.ChatMessageRequest{Message: "hello"})
		require.ErrorIs(t, err, wire.Conflict)
		good := s.endpoint.Load()
		s.endpoint.Store(&deployment.Endpoint{URL: "ftp://127.0.0.1"})
		_, _, err = s.service.Send(ctx, ada.Caller, "helper", id, wire.ChatMessageRequest{Message: "hello"})
		require.ErrorIs(t, err, code.UpstreamFailed)
		s.endpoint.Store(good)
		busy.cancel()
		parent.End()
		eventually(t, ada, path)
		all := messages(ada, path)
		spans := slices.DeleteFunc(recorder.Ended(), func(span sdktrace.ReadOnlySpan) bool { return span.Name() != "invoke_agent helper" })
		require.Len(t, spans, 4)
		attributes := func(i int) map[attribute.Key]string {
			require.Equal(t, parent.SpanContext().SpanID(), spans[i].Parent().SpanID())
			got := map[attribute.Key]string{}
			for _, a := range spans[i].Attributes() {
				got[a.Key] = a.Value.Emit()
			}
			return got
		}
		want := map[attribute.Key]string{
			"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "helper", "gen_ai.conversation.id": id, "agenthost.tenant": "acme",
			"agenthost.run.id": all[1]["runId"].(string), "agenthost.outcome": "completed", "gen_ai.response.model": "m",
			"gen_ai.usage.input_tokens": "123", "gen_ai.usage.output_tokens": "9",
		}
		require.Equal(t, want, attributes(0))
		require.Equal(t, codes.Unset, spans[0].Status().Code)
		require.Equal(t, "first token", spans[0].Events()[0].Name)
		got := attributes(1)
		require.Equal(t, []string{"failed", "run", all[3]["runId"].(string)}, []string{got["agenthost.outcome"], got["error.type"], got["agenthost.run.id"]})
		require.Equal(t, codes.Error, spans[1].Status().Code)
		require.Empty(t, spans[1].Events())
		require.NotContains(t, attributes(2), attribute.Key("agenthost.outcome"))
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "the message was not stored"}, spans[2].Status())
	})
}

// Answers that end while the database is locked are unsaved, and are stored in one transaction. One
// that the database rejects does not prevent the others.
func TestEndsOfAnswersThatWait(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	s, metrics := withMetrics(t, quiet)
	s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half"), modeltest.Gate(gate), modeltest.Text(".")))))
	ada := s.ada()
	var paths []string
	var answers []*stream
	for range 4 {
		path := session(ada)
		answer := send(t, ada, path, object{"message": "hello"})
		answer.until("partial_message")
		paths, answers = append(paths, path), append(answers, answer)
	}
	require.Equal(t, 4.0, metrics()["chats.active "])
	s.exec(`CREATE TRIGGER refuse BEFORE UPDATE OF status ON chat_messages WHEN NEW.status = 'completed' AND NEW.session_key IN (
		SELECT key FROM chat_sessions WHERE id = '` + paths[3][len(sessions)+1:] + `') BEGIN SELECT RAISE(ABORT, 'refused'); END`)
	require.NoError(t, s.db.Tx(t.Context(), func(*sql.Tx) error {
		for range answers {
			gate <- struct{}{}
		}
		require.Eventually(t, func() bool { return metrics()["chats.unsaved "] == 4 }, patience, 10*time.Millisecond)
		require.Zero(t, metrics()["chats.active "])
		return nil
	}))
	for i, answer := range answers {
		require.Equal(t, []string{"completed", "completed", "completed", ""}[i], last(answer.rest()))
	}
	require.Zero(t, metrics()["chats.unsaved "])
}

// nowhere has a deployment of every agent, which cannot be reached.
type nowhere struct{}

func (nowhere) Endpoint(context.Context, string, string) (deployment.Endpoint, error) {
	return deployment.Endpoint{URL: "http://127.0.0.1:1"}, nil
}

func (nowhere) Replicas(context.Context, string) ([]string, error) { return nil, nil }

// Beyond 1000 agents, an answer counts for no certain one.
func TestMetricsOfManyAgents(t *testing.T) {
	t.Parallel()
	const agents = 1002
	s, metrics := withMetrics(t, func(c *config) { c.Catalog, c.Deployments = everyAgent{}, nowhere{} })
	s.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		INSERT INTO chat_sessions (key, tenant_id, user_id, id, user_name, user_search, agent_name, title, source, created_at, updated_at)
		SELECT 's' || i, 'acme', 'id-' || i, 's' || i, '', '', 'agent' || i, '', 'hub', 0, 0 FROM n`, agents)
	numbers := make(chan int, agents)
	for i := range agents {
		numbers <- i + 1
	}
	close(numbers)
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for i := range numbers {
				caller := s.As("acme", fmt.Sprint(i), "member").Caller
				if _, _, err := s.service.Send(t.Context(), caller, fmt.Sprint("agent", i), fmt.Sprint("s", i), wire.ChatMessageRequest{Message: "hello"}); !errors.Is(err, code.UpstreamFailed) {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	got := metrics()
	require.Equal(t, 2.0, got["chats agent=other,outcome=failed,tenant=other"])
	series := 0
	for name := range got {
		if strings.HasPrefix(name, "chats agent=") {
			series++
		}
	}
	require.Equal(t, 1001, series)
}
