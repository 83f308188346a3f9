package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// inputVersion is the protocol version since which the result of a call may require input.
const inputVersion = "2026-07-28"

// Limits of results that require input. Sizes are in bytes.
const (
	maxRequests     = 16 // of one result
	maxRequestKey   = 256
	maxQuestion     = 16 << 10
	maxQuestionURL  = 8 << 10
	maxForm         = 64 << 10
	maxRequestState = 256 << 10
	maxRounds       = 10 // results of one call that require input
	maxBusy         = 3  // of them one after another without a request: the server is busy
	busyPause       = 100 * time.Millisecond
)

// formComplexity limits the schema of a form, which is flat.
var formComplexity = jsonlimit.Limit{Values: 1 << 12, Depth: 8}

// needsInput is the result if a server asks the user for input that it must not ask for: for a
// resource, or in an older protocol.
var needsInput = tool.Result{Output: "the server asks for input, which is possible only in a call of a tool and since protocol " + inputVersion, IsError: true}

var (
	errRounds  = fmt.Errorf("the server asks for input again after %d answers", maxRounds)
	errBusy    = errors.New("the server is busy")
	errChanged = errors.New("the server has changed since it asked: the answer was not sent")
)

// exchange is a call whose server requires input: the state of its questions. A server has no state
// of its own between its question and the answer.
type exchange struct {
	Server string  `json:"server"` // that of server.identity
	Rounds int     `json:"rounds"`
	Busy   int     `json:"busy,omitempty"`
	State  string  `json:"state,omitempty"` // of the server
	Asked  []asked `json:"asked,omitempty"` // by the last result, in the order of the keys
}

// asked is a question of a server. Those without an action have no answer yet.
type asked struct {
	Key string `json:"key"`
	tool.Question
}

// input is a request of a server for input.
type input struct {
	Method string `json:"method"`
	Params struct {
		Mode            string          `json:"mode"`
		Message         string          `json:"message"`
		RequestedSchema json.RawMessage `json:"requestedSchema"`
		URL             string          `json:"url"`
	} `json:"params"`
}

// Call calls the tool. If the result requires input, the result is a question, and the next call
// has its answer. The questions of a run that cannot ask are declined.
func (r *remote) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	for {
		res, err := r.callOnce(ctx, call)
		q := res.Question
		switch {
		case err != nil || q == nil:
			return res, err
		case q.Schema == nil && q.URL == "":
			if err := r.pause(ctx); err != nil {
				return tool.Result{}, err
			}
		case call.CanAsk:
			q.Server = r.server.name
			return res, nil
		default:
			q.Action = runvalue.ActionDecline
		}

		call.Question = q
	}
}

// pause waits before the next call of a server that is busy.
func (r *remote) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(busyPause):
		return nil
	}
}

// callOnce sends the call with the answers to the last result that required input. If one of its
// questions has no answer yet, it is the result. A question without a schema and a URL needs no
// answer: the server is busy.
func (r *remote) callOnce(ctx context.Context, call tool.Call) (tool.Result, error) {
	x, err := r.server.exchange(call.Question)
	if err != nil {
		return r.server.failed("", err), nil
	}

	if i := slices.IndexFunc(x.Asked, unanswered); i >= 0 {
		return x.ask(i), nil
	}

	return r.server.call(ctx, call, func(ctx context.Context, l *link) (tool.Result, error) {
		asks := l.session.InitializeResult().ProtocolVersion >= inputVersion
		if x.Rounds > 0 && !asks { // it would begin the call again, and run it without an answer
			return r.server.failed("", errChanged), nil
		}

		params := &sdk.CallToolParams{Name: r.spec.remote, Arguments: call.Input, Meta: traceMeta(ctx), RequestState: x.State}
		if asks {
			params.InputResponses = x.responses()
			params.Meta = withCapabilities(params.Meta)
		}

		if call.Progress != nil {
			token, done := l.filter.onProgress(call.Progress)
			defer done()
			params.SetProgressToken(token)
		}

		answer, err := l.session.CallTool(ctx, params)
		switch {
		case err != nil:
			return tool.Result{}, err
		case !answer.NeedsInput():
			return render(answer), nil
		case !asks:
			return needsInput, nil
		}

		next, err := x.next(answer)
		if err != nil {
			return r.server.failed("the call needs input: ", err), nil
		}

		return next.ask(0), nil
	})
}

func unanswered(a asked) bool { return a.Action == "" }

// withCapabilities adds to the metadata of a call that the server may ask.
func withCapabilities(meta sdk.Meta) sdk.Meta {
	if meta == nil {
		meta = sdk.Meta{}
	}

	meta[sdk.MetaKeyClientCapabilities] = map[string]any{"elicitation": map[string]any{"form": struct{}{}, "url": struct{}{}}}
	return meta
}

// identityOf identifies the server of a definition. Credentials, which change, are not part of it.
func identityOf(def agent.MCPServer) string {
	data, _ := json.Marshal([]any{def.Transport, def.Command, def.Args, def.CWD, def.URL}) //nolint:errcheck // strings
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// exchange returns the state of a question with its answer, and the state of a new call without
// one.
func (s *server) exchange(q *tool.Question) (*exchange, error) {
	if q == nil {
		return &exchange{Server: s.identity}, nil
	}

	x := new(exchange)
	if err := json.Unmarshal(q.State, x); err != nil {
		return nil, fmt.Errorf("read the state of the question: %w", err)
	}

	if x.Server != s.identity {
		return nil, errChanged
	}

	if i := slices.IndexFunc(x.Asked, unanswered); i >= 0 {
		x.Asked[i].Action, x.Asked[i].Content = q.Action, q.Content
	}

	return x, nil
}

// ask returns a question as the result of the call.
func (x *exchange) ask(i int) tool.Result {
	q := new(tool.Question)
	if i < len(x.Asked) {
		*q = x.Asked[i].Question
	}

	q.State, _ = json.Marshal(x) //nolint:errcheck // strings and valid JSON
	return tool.Result{Question: q}
}

// responses returns the answers for the server.
func (x *exchange) responses() sdk.InputResponseMap {
	if len(x.Asked) == 0 {
		return nil
	}

	all := sdk.InputResponseMap{}
	for _, a := range x.Asked {
		response := &sdk.ElicitResult{Action: a.Action}
		if a.Action == runvalue.ActionAccept && a.Schema != nil {
			d := json.NewDecoder(bytes.NewReader(a.Content))
			d.UseNumber()
			_ = d.Decode(&response.Content) //nolint:errcheck // it was validated
		}

		all[a.Key] = response
	}

	return all
}

// metaRequests is the member of the metadata in which encodeRequests puts what a result requires.
const metaRequests = "inputRequests"

// encodeRequests returns a result that requires input in a form that the SDK decodes whatever the
// server sent, and with the properties of schemas in their order.
func encodeRequests(result json.RawMessage) json.RawMessage {
	members, _ := jsonlimit.Members(result)    //nolint:errcheck // the type of the result was read
	encoded, _ := json.Marshal(map[string]any{ //nolint:errcheck // strings and valid JSON
		"content": []any{}, "resultType": kindInput, "requestState": members["requestState"],
		"_meta": map[string]any{metaRequests: string(members["inputRequests"])},
	})
	return encoded
}

// next returns the state after a result that requires input, or why the input cannot be provided.
func (x *exchange) next(answer *sdk.CallToolResult) (*exchange, error) {
	next := &exchange{Server: x.Server, Rounds: x.Rounds + 1, State: answer.RequestState}
	var requests map[string]input
	text, _ := answer.Meta[metaRequests].(string)
	switch err := jsonlimit.Unmarshal([]byte(cmp.Or(text, "null")), &requests); {
	case next.Rounds > maxRounds:
		return nil, errRounds
	case err != nil:
		return nil, fmt.Errorf("its requests cannot be read: %w", err)
	case len(next.State) > maxRequestState:
		return nil, fmt.Errorf("its state has more than %d bytes", maxRequestState)
	case len(requests) > maxRequests:
		return nil, fmt.Errorf("it has more than %d requests", maxRequests)
	case len(requests) == 0:
		next.Busy = x.Busy + 1
	}

	if next.Busy > maxBusy {
		return nil, errBusy
	}

	for _, key := range slices.Sorted(maps.Keys(requests)) {
		in := requests[key]
		q, err := in.question()
		if len(key) > maxRequestKey {
			err = fmt.Errorf("the name of a request has more than %d bytes", maxRequestKey)
		}

		if err != nil {
			return nil, err
		}

		next.Asked = append(next.Asked, asked{key, q})
	}

	return next, nil
}

// question returns what the server asks, or why a person cannot be asked.
func (in *input) question() (tool.Question, error) {
	p := &in.Params
	q := tool.Question{Message: p.Message}
	if in.Method != methodElicit {
		return q, fmt.Errorf("the server requests %.80q, which is not supported", in.Method)
	}

	if len(p.Message) > maxQuestion {
		return q, fmt.Errorf("the message has more than %d bytes", maxQuestion)
	}

	switch p.Mode {
	case "", "form":
		q.Schema = p.RequestedSchema
		return q, checkForm(p.RequestedSchema)
	case "url":
		q.URL = p.URL
		return q, checkURL(p.URL)
	}

	return q, fmt.Errorf("the server asks in the unknown mode %.80q", p.Mode)
}

// checkURL returns why a person cannot be asked to open a URL. The text of a permitted URL is what
// a browser opens: it is ASCII without spaces, and names the host first.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxQuestionURL:
		return fmt.Errorf("the url has more than %d bytes", maxQuestionURL)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }):
		return errors.New("the url has characters other than those of a URL")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return errors.New("the url is not an absolute http or https URL without credentials")
	}

	return nil
}

// checkForm returns why a person cannot fill in the form of a schema. It is that of an object whose
// properties are single values or lists of them.
func checkForm(schema json.RawMessage) error {
	if len(schema) > maxForm {
		return fmt.Errorf("the schema has more than %d bytes", maxForm)
	}

	if err := formComplexity.Check(schema); err != nil {
		return fmt.Errorf("the schema is too complex: %w", err)
	}

	var form map[string]any
	if err := jsonlimit.Unmarshal(schema, &form); err != nil {
		return fmt.Errorf("the schema cannot be read: %w", err)
	}

	properties, ok := form["properties"].(map[string]any)
	if form["type"] != "object" || !ok && form["properties"] != nil || refers(form) {
		return errors.New("the schema is not that of an object without references")
	}

	for name, property := range properties {
		of, _ := property.(map[string]any)
		if !slices.Contains([]any{"string", "number", "integer", "boolean", "array"}, of["type"]) {
			return fmt.Errorf("the property %.80q of the schema is not a single value or a list", name)
		}
	}

	return nil
}

// refers reports whether a schema has a reference, such as $ref.
func refers(value any) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, refers)
	case map[string]any:
		for name, member := range v {
			if name != "$schema" && name != "$comment" && strings.HasPrefix(name, "$") || refers(member) {
				return true
			}
		}
	}

	return false
}
