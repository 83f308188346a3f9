package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// seatForm is a schema whose properties are not in the order of the alphabet.
const seatForm = `{"type":"object","properties":{"window":{"type":"boolean"},"row":{"type":"integer","maximum":9007199254740993}},"required":["row"]}`

// newest makes a server one that knows no protocol before 2026-07-28.
func newest(server *sdk.Server) *sdk.Server {
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "initialize" {
				return nil, errors.New("the supported version is 2026-07-28")
			}
			return next(ctx, method, req)
		}
	})
	return server
}

// asker is a server whose tool ask is handler.
func asker(handler sdk.ToolHandler) *sdk.Server {
	server := newest(sdk.NewServer(&sdk.Implementation{Name: "asker", Version: "1"}, nil))
	offer(server, "ask", handler)
	return server
}

func askerOverHTTP(t *testing.T, handler sdk.ToolHandler) agent.MCPServer {
	return overHTTP(web(t, streamableAs(asker(handler), &sdk.StreamableHTTPOptions{Stateless: true})).URL)
}

// requires is a result that requires input.
func requires(state string, requests sdk.InputRequestMap) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: requests, RequestState: state}
}

func form(message, schema string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)}
}

// bookSeat asks for a seat, and says what it has received.
func bookSeat(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	p := req.Params
	if can := req.ClientCapabilities().Elicitation; can == nil || can.Form == nil || can.URL == nil {
		return says("the client cannot be asked"), nil
	}
	if p.InputResponses == nil {
		return requires("the seat of "+string(p.Arguments), sdk.InputRequestMap{"seat": form("Which <b>seat</b>?", seatForm)}), nil
	}
	answer := p.InputResponses["seat"].(*sdk.ElicitResult)
	return says(fmt.Sprintf("%s %v, state %s", answer.Action, answer.Content, p.RequestState)), nil
}

// A server asks in the result of a call. The answer reaches it with its state, also after a restart
// of the runtime and of the server.
func TestAServerAsks(t *testing.T) {
	for name, def := range map[string]func(*testing.T) agent.MCPServer{
		"stdio": func(t *testing.T) agent.MCPServer { return stdio(t, "asker") },
		"http": func(t *testing.T) agent.MCPServer {
			handler := streamableAs(asker(bookSeat), &sdk.StreamableHTTPOptions{Stateless: true})
			return overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err == nil && bytes.Contains(body, []byte("inputResponses")) && !bytes.Contains(body, []byte(`"row":9007199254740993`)) {
					http.Error(w, "the number is another one", http.StatusTeapot)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				handler.ServeHTTP(w, r)
			})).URL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDesk(t, map[string]agent.MCPServer{"plane": def(t)}, calls("mcp__plane__ask", `{"flight":7}`), done())
			waiting := d.ask(t)
			p := waiting.Pending[0]
			require.Equal(t, wire.Pending{
				ID: p.ID, Kind: "question", ToolName: "mcp__plane__ask", ToolUseID: "t1", Input: json.RawMessage(`{"flight":7}`),
				Reason: "Which <b>seat</b>?", Schema: json.RawMessage(seatForm), Server: "plane",
			}, p)

			_, err := d.try(t, waiting, accept(`{"row":"A"}`))
			var refused *client.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, http.StatusBadRequest, refused.Status)
			require.Contains(t, refused.Body.Error, "does not match the schema")
			require.Equal(t, waiting.Pending, refused.Body.Pending, "the session still waits")

			d.start(t)
			res := d.answer(t, waiting, accept(`{"row":9007199254740993,"window":true}`))
			require.Equal(t, "Done.", res.Text)
			require.Equal(t, map[string]string{"t1": `accept map[row:9.007199254740992e+15 window:true], state the seat of {"flight":7}`}, d.results(t))

			_, err = d.try(t, waiting, accept(`{"row":1}`))
			require.ErrorAs(t, err, &refused)
			require.Equal(t, http.StatusConflict, refused.Status, "an answer counts once")
		})
	}
}

func TestAQuestionIsDeclined(t *testing.T) {
	for _, action := range []string{"decline", "cancel"} {
		t.Run(action, func(t *testing.T) {
			d := openDesk(t, map[string]agent.MCPServer{"plane": askerOverHTTP(t, bookSeat)}, calls("mcp__plane__ask", `{}`), done())
			d.answer(t, d.ask(t), wire.Answer{Action: action})
			require.Equal(t, map[string]string{"t1": action + " map[], state the seat of {}"}, d.results(t))
		})
	}
}

// The questions of a run without inputs are declined.
func TestQuestionsOfARunThatCannotAsk(t *testing.T) {
	var asked atomic.Int32
	stubborn := func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		asked.Add(1)
		if answer, ok := req.Params.InputResponses["seat"].(*sdk.ElicitResult); ok && answer.Action != "decline" {
			return says("an answer"), nil
		}
		return requires("", sdk.InputRequestMap{"seat": form("?", seatForm)}), nil
	}
	d := openDesk(t, map[string]agent.MCPServer{"polite": askerOverHTTP(t, bookSeat), "stubborn": askerOverHTTP(t, stubborn)},
		calls("mcp__polite__ask", `{}`, "mcp__stubborn__ask", `{}`), done())
	res, err := d.Complete(t.Context(), "helper", wire.RunRequest{Message: "go"})
	require.NoError(t, err)
	require.Equal(t, "Done.", res.Text)
	require.Equal(t, map[string]string{
		"t1": "decline map[], state the seat of {}",
		"t2": "mcp server stubborn: the call needs input: the server asks for input again after 10 answers",
	}, d.results(t))
	require.EqualValues(t, 11, asked.Load())
}

// The requests of one result are asked one after another. The server receives all answers together.
func TestSeveralQuestionsOfOneResult(t *testing.T) {
	var received atomic.Int32
	several := func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		received.Add(1)
		if req.Params.InputResponses == nil {
			return requires("", sdk.InputRequestMap{
				"b": &sdk.ElicitParams{Message: "Sign in", URL: "https://sign.example/in?a=%20b"}, "a": form("Which?", seatForm),
			}), nil
		}
		a, b := req.Params.InputResponses["a"].(*sdk.ElicitResult), req.Params.InputResponses["b"].(*sdk.ElicitResult)
		return says(fmt.Sprint(a.Action, a.Content, b.Action, b.Content, req.Params.RequestState == "")), nil
	}
	d := openDesk(t, map[string]agent.MCPServer{"s": askerOverHTTP(t, several)}, calls("mcp__s__ask", `{}`), done())
	first := d.ask(t)
	require.Equal(t, "Which?", first.Pending[0].Reason)
	second := d.answer(t, first, accept(`{"row":3}`))
	require.Len(t, second.Pending, 1)
	require.NotEqual(t, first.Pending[0].ID, second.Pending[0].ID)
	require.Equal(t, "Sign in", second.Pending[0].Reason)
	require.Equal(t, "https://sign.example/in?a=%20b", second.Pending[0].URL)
	require.Nil(t, second.Pending[0].Schema)
	require.EqualValues(t, 1, received.Load())

	_, err := d.try(t, second, accept(`{"row":3}`))
	require.ErrorContains(t, err, "asks for no content")
	d.answer(t, second, wire.Answer{Action: "accept"})
	require.Equal(t, map[string]string{"t1": "acceptmap[row:3]acceptmap[] true"}, d.results(t))
	require.EqualValues(t, 2, received.Load())
}

// A server asks again after an answer, and a second server asks in the same response of the model.
func TestAServerAsksAgain(t *testing.T) {
	twice := func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if state := req.Params.RequestState; len(state) < 2 {
			return requires(state+"x", sdk.InputRequestMap{"seat": form("Question "+state, seatForm)}), nil
		}
		return says("state " + req.Params.RequestState), nil
	}
	d := openDesk(t, map[string]agent.MCPServer{"one": askerOverHTTP(t, twice), "two": askerOverHTTP(t, bookSeat)},
		calls("mcp__one__ask", `{}`, "mcp__two__ask", `{}`), done())
	res := d.ask(t)
	for _, want := range []string{"Question ", "Question x", "Which <b>seat</b>?"} {
		require.Len(t, res.Pending, 1)
		require.Equal(t, want, res.Pending[0].Reason)
		res = d.answer(t, res, accept(`{"row":1}`))
	}
	require.Equal(t, map[string]string{"t1": "state xx", "t2": "accept map[row:1], state the seat of {}"}, d.results(t))
}

// A call that was approved asks before it runs, and runs once.
func TestAnApprovedCallAsks(t *testing.T) {
	var runs atomic.Int32
	d := openDesk(t, nil, calls("mcp__s__ask", `{}`), done())
	d.servers = map[string]agent.MCPServer{"s": askerOverHTTP(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if req.Params.InputResponses != nil {
			runs.Add(1)
		}
		return bookSeat(ctx, req)
	})}
	d.change = func(a *agent.Agent) { a.PermissionMode = "default" }
	d.start(t)
	both := []string{"approval", "question"}
	first, err := d.Complete(t.Context(), "helper", wire.RunRequest{Message: "go", Inputs: both})
	require.NoError(t, err)
	require.Equal(t, "approval", first.Pending[0].Kind)
	second, err := d.Complete(t.Context(), "helper", wire.RunRequest{
		SessionID: &first.SessionID, Inputs: both, Answers: []wire.Answer{{ID: first.Pending[0].ID, Decision: "approve"}},
	})
	require.NoError(t, err)
	require.Equal(t, "question", second.Pending[0].Kind)
	require.Zero(t, runs.Load())
	d.answer(t, second, accept(`{"row":1}`))
	require.Equal(t, map[string]string{"t1": "accept map[row:1], state the seat of {}"}, d.results(t))
	require.EqualValues(t, 1, runs.Load())
}

// The answer to a question is no approval: a call that the rules permitted, and no longer permit,
// is not sent again.
func TestNewRulesDecideWhenAQuestionIsAnswered(t *testing.T) {
	var received atomic.Int32
	d := openDesk(t, map[string]agent.MCPServer{"s": askerOverHTTP(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		received.Add(1)
		return bookSeat(ctx, req)
	})}, calls("mcp__s__ask", `{}`), done())
	waiting := d.ask(t)
	for _, mode := range []string{"default", "plan"} {
		d.change = func(a *agent.Agent) { a.PermissionMode = mode }
		d.start(t)
		_, err := d.try(t, waiting, accept(`{"row":1}`))
		require.ErrorContains(t, err, "Call changed", mode)
	}
	require.EqualValues(t, 1, received.Load())
	d.change = func(*agent.Agent) {}
	d.start(t)
	d.answer(t, waiting, accept(`{"row":1}`))
	require.EqualValues(t, 2, received.Load())
}

// Under rules that deny the call, the question can be declined, and the server does not get that.
func TestAQuestionOfADeniedCallIsDeclined(t *testing.T) {
	for _, action := range []string{"decline", "cancel"} {
		var received atomic.Int32
		d := openDesk(t, map[string]agent.MCPServer{"s": askerOverHTTP(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			received.Add(1)
			return bookSeat(ctx, req)
		})}, calls("mcp__s__ask", `{}`), done())
		waiting := d.ask(t)
		d.change = func(a *agent.Agent) { a.PermissionMode = "plan" }
		d.start(t)
		d.answer(t, waiting, wire.Answer{Action: action})
		require.EqualValues(t, 1, received.Load())
		require.Len(t, d.results(t), 1)
	}
}

// A server that is busy has no requests: the call is sent again, a few times.
func TestABusyServer(t *testing.T) {
	var sent atomic.Int32
	busy := func(until int) sdk.ToolHandler {
		return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			sent.Add(1)
			if len(req.Params.RequestState) < until {
				return requires(req.Params.RequestState+"x", sdk.InputRequestMap{}), nil
			}
			return says("after " + req.Params.RequestState), nil
		}
	}
	w := newWorld(t)
	require.Equal(t, "after xxx", call(t, find(t, w.open(askerOverHTTP(t, busy(3))), "ask"), `{}`).Output)
	require.EqualValues(t, 4, sent.Load())
	res := call(t, find(t, w.open(askerOverHTTP(t, busy(4))), "ask"), `{}`)
	require.True(t, res.IsError)
	require.Equal(t, "mcp server test: the call needs input: the server is busy", res.Output)
	require.EqualValues(t, 8, sent.Load())
}

// An answer is sent only to the server that asked.
func TestAServerChangesBeforeTheAnswer(t *testing.T) {
	other := func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return says("ran"), nil
	}
	older := sdk.NewServer(&sdk.Implementation{Name: "older", Version: "1"}, nil)
	offer(older, "ask", other)
	var newer atomic.Bool
	newer.Store(true)
	modern, past := streamableAs(asker(bookSeat), &sdk.StreamableHTTPOptions{Stateless: true}), streamable(older)
	sameAddress := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if newer.Load() {
			modern.ServeHTTP(w, r)
		} else {
			past.ServeHTTP(w, r)
		}
	}))
	for name, row := range map[string]struct {
		change func(d *desk)
		want   string
	}{
		"another address": {
			func(d *desk) { d.servers = map[string]agent.MCPServer{"s": askerOverHTTP(t, other)} },
			"mcp server s: the server has changed since it asked: the answer was not sent",
		},
		"an older protocol": {
			func(*desk) { newer.Store(false) },
			"mcp server s: the server has changed since it asked: the answer was not sent",
		},
		"gone": {func(d *desk) { d.servers = nil }, `There is no tool "mcp__s__ask".`},
	} {
		t.Run(name, func(t *testing.T) {
			newer.Store(true)
			d := openDesk(t, map[string]agent.MCPServer{"s": overHTTP(sameAddress.URL)}, calls("mcp__s__ask", `{}`), done())
			waiting := d.ask(t)
			row.change(d)
			d.start(t)
			d.answer(t, waiting, accept(`{"row":1}`))
			require.Contains(t, d.results(t)["t1"], row.want)
		})
	}
}

// A server of an older protocol cannot ask within a call.
func TestOlderServersCannotAsk(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "older", Version: "1"}, nil)
	offer(server, "ask", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, err := req.Session.Elicit(ctx, form("?", seatForm))
		return says(fmt.Sprint(err != nil)), nil
	})
	d := openDesk(t, map[string]agent.MCPServer{"s": overHTTP(web(t, streamable(server)).URL)}, calls("mcp__s__ask", `{}`), done())
	res, err := d.Complete(t.Context(), "helper", wire.RunRequest{Message: "go", Inputs: questions})
	require.NoError(t, err)
	require.Equal(t, "Done.", res.Text)
	require.Equal(t, map[string]string{"t1": "true"}, d.results(t))
}

// The state of a server is stored in the session, and is not shown.
func TestTheStateOfAServerIsNotShown(t *testing.T) {
	secret := strings.Repeat("k", 1000)
	d := openDesk(t, map[string]agent.MCPServer{"s": askerOverHTTP(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return requires(secret, sdk.InputRequestMap{"seat": form("?", seatForm)}), nil
	})}, calls("mcp__s__ask", `{}`), done())
	waiting := d.ask(t)
	shown, err := json.Marshal(waiting)
	require.NoError(t, err)
	require.NotContains(t, string(shown), secret)
	log, err := d.Transcript(t.Context(), waiting.SessionID, 0, 100)
	require.NoError(t, err)
	shown, err = json.Marshal(log)
	require.NoError(t, err)
	require.NotContains(t, string(shown), secret)
	files, err := filepath.Glob(filepath.Join(d.sessions, "*", "*"))
	require.NoError(t, err)
	var size int64
	for _, name := range files {
		info, err := os.Stat(name)
		require.NoError(t, err)
		size += info.Size()
	}
	require.Less(t, size, int64(8<<10))
}
