// Package tool defines tools: a name, a description and a JSON Schema for the model, and a function
// that executes calls and returns text.
//
// The runtime validates the input of a call with the schema. A value of another type is replaced
// before that if the schema leaves one reading: "2" where only an integer is permitted is 2,
// "[1]" where only a list is permitted is that list, and null for a property that is not required
// is its absence. A text stays a text where a string is permitted. Permissions, events, sessions
// and the tool receive the same input. The model receives an error for any other input, with what
// to send instead.
//
// The result of a call that was refused in three turns in a row, because it is invalid or not
// permitted, contains an instruction not to repeat it. After six turns the run fails.
package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/seed93082962/agenthost/internal/jsonlimit"

	"github.com/seed93082962/agenthost/internal/logquota"
)

// Tool is a function that a model can call. It is safe for concurrent use.
type Tool interface {
	Spec() Spec

	// Call executes one call. When ctx ends, Call stops and returns. Nothing that Call started is
	// running after it has returned. The model receives the text of an error as the result of the
	// call, as for a Result with IsError.
	Call(ctx context.Context, call Call) (Result, error)
}

// Timed is a Tool whose calls set their own time limit.
type Timed interface {
	Tool

	// Timeout returns the time limit of a call with this input. limit is the default of the
	// runtime. The input was not validated.
	Timeout(input json.RawMessage, limit time.Duration) time.Duration
}

// Spec describes a tool to the model.
type Spec struct {
	Name        string // ^[A-Za-z0-9_-]{1,64}$: accepted by every provider
	Description string
	InputSchema json.RawMessage // JSON Schema of type object; nil: any object

	// ReadOnly tools change nothing. Calls of read-only tools in one model response run
	// concurrently, and they need no permission.
	ReadOnly bool

	// Original is the full name from which Name was derived, if they differ. Permission rules match
	// both.
	Original string
}

// Call is one call of a tool.
type Call struct {
	ID        string          // of the call, set by the model
	Input     json.RawMessage // always a JSON object
	RunID     string
	SessionID string

	// Log bounds what the calls of a run write to the log of the runtime. nil means no bound.
	Log *logquota.Quota

	// Approved is what a person was shown and has approved, or "". A tool whose effect depends on more
	// than Input fails if it would do anything else.
	Approved string

	// CanAsk reports whether the call may return a question.
	CanAsk bool

	// Question is the question of the result of this call, which is called again with its answer. nil
	// in the first call.
	Question *Question

	// Progress, if not nil, starts the time limit of the call again. A tool calls it when it knows
	// that the call makes progress. It does not extend the time of the run.
	Progress func()
}

// Result is the result of a call.
type Result struct {
	Output    string
	IsError   bool
	Truncated bool // Output is incomplete, and contains a note about it

	// Question, if not nil, is what the call needs before it can continue. The call has no other
	// result, and is called again when the question is answered, perhaps days later and by another
	// process. It is an error if the call could not ask.
	Question *Question

	// Images are sent to providers that accept images in results. Output describes them for others.
	Images []Image
}

// Question asks for values or for a visit to a URL, and has the answer in the next call.
type Question struct {
	Server  string          `json:"server,omitempty"` // that asks, or ""
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"` // of the values, an object
	URL     string          `json:"url,omitempty"`    // to visit, in place of values
	State   []byte          `json:"state,omitempty"`  // for the next call, which receives it unchanged

	Action  string          `json:"action,omitempty"`  // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"` // the values after accept
}

// Image is a PNG, JPEG, GIF or WebP file.
type Image struct {
	MediaType string // such as image/png; models receive the type of the content
	Data      []byte
}

// New returns a Tool that calls fn.
func New(spec Spec, fn func(ctx context.Context, call Call) (Result, error)) Tool {
	return funcTool{spec, fn}
}

type funcTool struct {
	spec Spec
	fn   func(ctx context.Context, call Call) (Result, error)
}

func (t funcTool) Spec() Spec { return t.spec }

func (t funcTool) Call(ctx context.Context, call Call) (Result, error) { return t.fn(ctx, call) }

// Func is Typed for a function that returns a text.
func Func[In any](spec Spec, fn func(ctx context.Context, in In) (string, error)) Tool {
	return Typed(spec, func(ctx context.Context, in In) (Result, error) {
		output, err := fn(ctx, in)
		return Result{Output: output}, err
	})
}

// Typed returns a Tool that calls fn with a decoded input. If all fields of In have JSON tags, the
// names of members have the same letter case. The model receives the error of fn, or an error if
// its input does not match In.
func Typed[In any](spec Spec, fn func(ctx context.Context, in In) (Result, error)) Tool {
	return New(spec, func(ctx context.Context, call Call) (Result, error) {
		in, err := jsonlimit.UnmarshalAs[In](call.Input)
		if err != nil {
			return Result{}, fmt.Errorf("the input does not match: %w", err)
		}

		return fn(ctx, in)
	})
}

// Server is a set of tools behind a connection that may be down, such as an MCP server. Many
// runs share it. It is safe for concurrent use.
type Server interface {
	// Name returns the server's name in the configuration.
	Name() string

	// Status returns the state of the connection, without blocking. A server that was not used yet,
	// or that has disconnected, is pending: Tools connects it.
	Status() Status

	// Fault returns why the last completed attempt to connect has failed. It is nil before the first
	// failure and after a success, and stays during the next attempt. Its text may be public.
	Fault() error

	// Tools returns the server's tools, and connects first if there is no connection. The same
	// pointer means the same tools; the list must not be changed. When ctx ends, Tools returns; an
	// attempt to connect continues for other callers. [ErrStarting] is returned without a wait while
	// a server takes longer to start than callers wait.
	//
	// A call of a tool reconnects if necessary.
	Tools(ctx context.Context) (*List, error)

	// Close closes the connection and terminates its processes. Later calls fail.
	Close() error
}

// List has the tools of a [Server].
type List struct {
	Tools []Tool // their names are mcp__<server>__<tool> and unique

	// LeftOut has a sentence for each tool that cannot be called, with its name and the reason. A
	// run emits them as warnings.
	LeftOut []string

	// Instructions of the server are part of the system prompt; "" for none.
	Instructions string

	// Resources returns the content of a resource of the server, or the list of its resources if uri
	// is "". It is nil for a server without resources. Its time limit is that of the runtime, not of
	// the server.
	Resources func(ctx context.Context, call Call, uri string) (Result, error)
}

// ErrStarting is the error of a server that is pending and takes long to start, for example because
// a package is installed. A later call may find it connected.
var ErrStarting = errors.New("the server is still starting")

// Status is the state of the connection to a [Server].
type Status string

const (
	Pending   Status = "pending"
	Connected Status = "connected"
	Failed    Status = "failed" // the last attempt failed; another one may be in progress
)

// Confiner confines processes that tools start. It is safe for concurrent use.
type Confiner interface {
	// Start changes cmd so that its process is confined, and calls start, which starts cmd. The
	// directory, the environment and the output of cmd keep their meaning, except for HOME, TMPDIR
	// and the variables of proxies.
	//
	// denied returns the connections that the process was denied so far, one sentence for each.
	Start(cmd *exec.Cmd, start func() error) (denied func() []string, err error)

	// Home returns the home directory of the processes, which no other sandbox can access. It is
	// deleted by Close.
	Home() string

	// Summary is one sentence for the model: what a process can access, and which settings permit
	// more.
	Summary() string

	// Close releases the resources. The processes must have ended.
	Close()
}
