package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
)

// Limits of one incoming message in addition to maxMessage. A JSON value occupies up to 100 times
// its size in memory after it is decoded, so the number of values is bounded too.
const (
	maxBatch   = 1000
	maxID      = 256      // bytes of the id of a request
	maxListing = 32 << 20 // bytes of all pages of one listing
)

var complexity = jsonlimit.Limit{Values: 1 << 19, Depth: 200}

const (
	methodDiscover = "server/discover"
	methodElicit   = "elicitation/create"
	methodList     = "tools/list"
	methodCall     = "tools/call"
	methodPing     = "ping"
	methodCancel   = "notifications/cancelled"
	methodChanged  = "notifications/tools/list_changed"
	methodProgress = "notifications/progress"
)

// codeServer is the first code of JSON-RPC for errors that an implementation defines.
const codeServer = -32000

// sentMethods are the methods that the runtime sends.
var sentMethods = []string{
	"initialize", methodDiscover, "subscriptions/listen", "notifications/initialized",
	methodList, methodCall, methodPing, methodCancel, "resources/list", "resources/templates/list", "resources/read",
}

var (
	errNotJSONRPC = errors.New("the server sent a message that is not JSON-RPC 2.0")
	errNoResponse = errors.New("the server sent no response to the request")
	errComplex    = errors.New("the server sent a message that nests too deeply or has too many values")
)

// filter passes only the messages of one link that the runtime uses: responses to calls of the SDK,
// and notifications/tools/list_changed without params. Both are rebuilt from validated parts. The
// SDK handles messages in its own goroutines, where a panic cannot be recovered and ends the
// process.
type filter struct {
	log     *slog.Logger
	pending atomic.Bool // a change notification was passed and is not handled yet

	mu     sync.Mutex
	calls  map[int64]string // method by id of the calls without a response; guarded by mu
	listed int              // bytes of the current listing; guarded by mu
	tasks  map[string]bool  // tools of the current listing that can only be called as a task; guarded by mu

	progress map[int64]func() // by token, of the calls that want to know; guarded by mu
	token    int64            // the last one; guarded by mu

	reason error // why the connection is of no further use; guarded by mu
}

func newFilter(log *slog.Logger) *filter {
	return &filter{log: log, calls: map[int64]string{}, tasks: map[string]bool{}, progress: map[int64]func(){}}
}

// refuse records why the connection is of no further use. A process whose stdout is closed then can
// end before the SDK reports the reason.
func (f *filter) refuse(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reason = err
	return err
}

// refused returns the error of refuse, or nil.
func (f *filter) refused() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reason
}

// onProgress calls f for each notification of progress with the returned token, until the
// returned function is called.
func (f *filter) onProgress(call func()) (int64, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token++
	token := f.token
	f.progress[token] = call
	return token, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.progress, token)
	}
}

func (f *filter) progressed(params json.RawMessage) {
	var p struct {
		ProgressToken int64 `json:"progressToken"`
	}
	if jsonlimit.Unmarshal(params, &p) != nil {
		return
	}

	f.mu.Lock()
	call := f.progress[p.ProgressToken]
	f.mu.Unlock()
	if call != nil {
		call()
	}
}

// beginListing resets the count that maxListing bounds.
func (f *filter) beginListing() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed, f.tasks = 0, map[string]bool{}
}

// requiresTask reports whether a tool of the current listing can only be called as a task.
func (f *filter) requiresTask(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tasks[name]
}

// noteTasks records the tools of a page that can only be called as a task. The SDK does not decode
// that field.
func (f *filter) noteTasks(page json.RawMessage) {
	if !bytes.Contains(page, []byte(`"taskSupport"`)) {
		return
	}

	var list struct {
		Tools jsonlimit.List[struct {
			Name      string `json:"name"`
			Execution struct {
				TaskSupport string `json:"taskSupport"`
			} `json:"execution"`
		}] `json:"tools"`
	}
	_ = jsonlimit.Unmarshal(page, &list) // omits tools of another form; the SDK reports the error
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range list.Tools.Items {
		if t.Execution.TaskSupport == "required" {
			f.tasks[t.Name] = true
		}
	}
}

// outgoing checks a message to the server and records the id of a call.
func (f *filter) outgoing(msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	if !ok {
		return nil
	}

	if !slices.Contains(sentMethods, req.Method) {
		return fmt.Errorf("the method %q is not in use", req.Method)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if id, ok := req.ID.Raw().(int64); ok {
		f.calls[id] = req.Method
	}

	if req.Method == methodCancel {
		var params struct {
			RequestID int64 `json:"requestId"`
		}
		if jsonlimit.Unmarshal(req.Params, &params) == nil {
			delete(f.calls, params.RequestID)
		}
	}

	return nil
}

// failed removes a call that was not sent.
func (f *filter) failed(msg jsonrpc.Message) {
	if req, ok := msg.(*jsonrpc.Request); ok {
		if id, ok := req.ID.Raw().(int64); ok {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.calls, id)
		}
	}
}

// incoming returns the messages in data that the SDK receives. It passes responses to requests of
// the server to reply: a pong for a ping, decline for a question, an error for any other method.
// Everything else is dropped. The error is that of a part that is not a message, or of all.
func (f *filter) incoming(data []byte, reply func([]byte)) ([]jsonrpc.Message, error) {
	if complexity.Check(data) != nil {
		return nil, errComplex
	}

	parts := []json.RawMessage{data}
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		parts = nil // decoding would overwrite data
		if err := json.Unmarshal(data, &parts); err != nil || len(parts) > maxBatch {
			return nil, errNotJSONRPC
		}
	}

	var passed []jsonrpc.Message
	var failed error
	for _, part := range parts {
		msg, err := f.message(part, reply)
		if err != nil {
			failed = err
		}

		if msg != nil {
			passed = append(passed, msg)
		}
	}

	return passed, failed
}

// envelope is the common form of requests, notifications and responses.
type envelope struct{ ID, Method, Params, Result, Error json.RawMessage }

func (f *filter) message(data []byte, reply func([]byte)) (jsonrpc.Message, error) {
	members, err := jsonlimit.Members(data)
	if err != nil || string(members["jsonrpc"]) != `"2.0"` {
		return nil, errNotJSONRPC
	}

	e := envelope{ID: members["id"], Method: members["method"], Params: members["params"], Result: members["result"], Error: members["error"]}
	if e.Method == nil {
		return f.response(&e), nil
	}

	var method string
	if jsonlimit.Unmarshal(e.Method, &method) != nil {
		return nil, errNotJSONRPC
	}

	answerable := len(e.ID) > 0 && len(e.ID) <= maxID && (e.ID[0] == '"' || e.ID[0] == '-' || e.ID[0] >= '0' && e.ID[0] <= '9')
	switch {
	case e.ID == nil && method == methodChanged && !f.pending.Swap(true):
		return &jsonrpc.Request{Method: methodChanged, Params: json.RawMessage("{}")}, nil
	case e.ID == nil && method == methodProgress:
		f.progressed(e.Params)
	case answerable && method == methodPing:
		reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, e.ID))
	case answerable && method == methodElicit: // the older protocol: a call that waits would need the connection
		reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"action":%q}}`, e.ID, runvalue.ActionDecline))
	case answerable:
		f.log.Debug("request of the server rejected", "method", excerpt.Shorten(method, 80))
		reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"method not found"}}`,
			e.ID, jsonrpc.CodeMethodNotFound))
	default:
		f.log.Debug("message of the server dropped", "method", excerpt.Shorten(method, 80))
	}

	return nil, nil
}

// response returns a response to a call that waits for one, or nil.
func (f *filter) response(e *envelope) jsonrpc.Message {
	number, err := strconv.ParseFloat(string(e.ID), 64)
	id, _ := jsonrpc.MakeID(number) // a float64 is an id
	key, _ := id.Raw().(int64)
	f.mu.Lock()
	method, waiting := f.calls[key]
	if err == nil && waiting {
		delete(f.calls, key)
	}

	if method == methodList {
		f.listed += len(e.Result)
	}

	large := f.listed > maxListing
	f.mu.Unlock()
	switch {
	case err != nil || !waiting:
		f.log.Debug("response of the server dropped: no call waits for it")
		return nil
	case e.Error != nil && string(e.Error) != "null":
		return &jsonrpc.Response{ID: id, Error: wireError(e.Error)}
	case method == methodList && large:
		return &jsonrpc.Response{ID: id, Error: internalError(fmt.Sprintf("the list is larger than %d MiB", maxListing>>20))}
	case len(e.Result) == 0 || e.Result[0] != '{': // every result is an object
		return &jsonrpc.Response{ID: id, Error: internalError("the response has no result")}
	}

	kind := kindOf(e.Result)
	switch {
	case !slices.Contains([]string{"", "complete", kindInput}, kind):
		return &jsonrpc.Response{ID: id, Error: internalError(fmt.Sprintf("the server sent a result of the unknown type %.80q", kind))}
	case method == methodList:
		f.noteTasks(e.Result)
	case method == methodCall && kind == kindInput:
		e.Result = encodeRequests(e.Result)
	case method == methodCall:
		e.Result = readable(e.Result)
	}

	return &jsonrpc.Response{ID: id, Result: e.Result}
}

// kindInput is the type of a result that requires input.
const kindInput = "input_required"

// kindOf returns the type of a result, or "". The SDK would read one of an unknown type as a
// complete one.
func kindOf(result json.RawMessage) string {
	if !bytes.Contains(result, []byte(`esultType`)) {
		return ""
	}

	members, err := jsonlimit.Members(result)
	if err != nil {
		return ""
	}

	var kind any
	_ = json.Unmarshal(members["resultType"], &kind) // nil without one
	if kind == nil {
		return ""
	}

	return fmt.Sprint(kind)
}

// rejection returns the error in the body of a response with an error status, or nil. The SDK
// accepts it with any id.
func rejection(data []byte) jsonrpc.Message {
	if complexity.Check(data) != nil {
		return nil
	}

	members, err := jsonlimit.Members(data)
	failure := members["error"]
	if err != nil || len(failure) == 0 || failure[0] != '{' {
		return nil
	}

	id, _ := jsonrpc.MakeID(0.0) // a float64 is an id
	return &jsonrpc.Response{ID: id, Error: wireError(failure)}
}

// wireError decodes an error object. Its code may be any number.
func wireError(data json.RawMessage) *jsonrpc.Error {
	var e struct {
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	if jsonlimit.Unmarshal(data, &e) != nil {
		return internalError("the response has a malformed error")
	}

	code, err := strconv.ParseInt(string(e.Code), 10, 64)
	if err != nil {
		code = jsonrpc.CodeInternalError
	}

	if code >= -32005 && code <= -32003 { // the SDK uses these itself, for a connection that is closing
		code = codeServer
	}

	if code == sdk.CodeURLElicitationRequired {
		code = codeServer
		e.Message = "the server requires that the user opens a web page first, which is not possible here: " + e.Message
	}

	if code != sdk.CodeUnsupportedProtocolVersion || len(e.Data) > maxErrorText {
		e.Data = nil // the SDK reads it only there
	}

	return &jsonrpc.Error{Code: code, Message: excerpt.Shorten(e.Message, maxErrorText), Data: e.Data}
}

func internalError(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
}
