package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// responsesRequest is the body of POST /responses, without the fields that are ignored.
type responsesRequest struct {
	Model              string          `json:"model"`
	Input              inputItems      `json:"input"`
	Instructions       string          `json:"instructions"`
	PreviousResponseID string          `json:"previous_response_id"`
	Store              *bool           `json:"store"`
	Stream             bool            `json:"stream"`
	Background         bool            `json:"background"`
	Metadata           wire.Metadata   `json:"metadata"`
	Tools              []responsesTool `json:"tools"`
	ToolChoice         toolChoice      `json:"tool_choice"`
	Text               struct {
		Format format `json:"format"`
	} `json:"text"`

	Type string `json:"type"` // response.create, only of a message over WebSocket

	// Rejected, unless they have their default.
	TopLogProbs  int             `json:"top_logprobs"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`
}

// responsesTool is a client tool, in requests and responses.
type responsesTool struct {
	Type        string          `json:"type"` // function
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

func (req *responsesRequest) check() error {
	switch {
	case req.Model == "":
		return invalid("model", "is required: the id of an agent")
	case req.Background && !req.stored():
		return unsupported("background", "a response with store: false ends with its request")
	case req.TopLogProbs != 0:
		return unsupported("top_logprobs", "runs have none")
	case given(req.Conversation):
		return unsupported("conversation", "use previous_response_id")
	case given(req.Prompt):
		return unsupported("prompt", "the prompt is that of the agent")
	}

	for i, t := range req.Tools {
		if t.Type != "function" {
			return unsupported(fmt.Sprintf("tools[%d]", i), "its type must be function, the other tools are those of the agent")
		}
	}

	if _, err := req.outputSchema(); err != nil {
		return err
	}

	return req.ToolChoice.check()
}

func (req *responsesRequest) outputSchema() (json.RawMessage, error) {
	return req.Text.Format.outputSchema("text.format")
}

// stored reports whether the response can be continued and read later.
func (req *responsesRequest) stored() bool { return req.Store == nil || *req.Store }

// clientTools returns the tools of the request as those of a run.
func (req *responsesRequest) clientTools() []wire.ClientTool {
	if req.ToolChoice == "none" {
		return nil
	}

	var list []wire.ClientTool
	for _, t := range req.Tools {
		tool := wire.ClientTool{Name: t.Name}
		if t.Description != nil {
			tool.Description = *t.Description
		}

		if given(t.Parameters) {
			tool.InputSchema = t.Parameters
		}

		list = append(list, tool)
	}

	return list
}

// createResponse handles POST /responses.
func (s *server) createResponse(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	memory := &httpapi.Memory{Reserve: s.cfg.Host.Reserve}
	a, err := s.readResponse(w, r, memory)
	if err == nil && a.req.Background {
		return s.runInBackground(a, r)
	}

	defer memory.Release()
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var stream *sse.Stream
	if a.stream {
		a.open = func() (sink, error) {
			stream, err = a.openStream(cancel)
			return &eventStream{Stream: stream}, err
		}
	}

	err = a.execute(ctx)
	if stream != nil {
		a.end(err)
		endStream(stream)
		return nil
	}

	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, a.resource(nil))
}

// endStream closes the stream of a response.
func endStream(stream *sse.Stream) {
	_ = stream.Queue(sse.Event{Data: []byte("[DONE]")})
	_ = stream.Close() // OnError has handled the error
}

// readResponse reads the request for a response.
func (s *server) readResponse(w http.ResponseWriter, r *http.Request, memory *httpapi.Memory) (*responseRun, error) {
	var req responsesRequest
	if err := s.readJSON(w, r, memory, &req); err != nil {
		return nil, err
	}

	return s.newResponse(r.Context(), s.newExchange(w, r, memory, req.Model, req.Stream), &req)
}

// newResponse returns the response to a request, which has not begun.
func (s *server) newResponse(ctx context.Context, x *exchange, req *responsesRequest) (*responseRun, error) {
	if err := req.check(); err != nil {
		return nil, err
	}

	if err := s.resolve(ctx, req, x.memory); err != nil {
		return nil, err
	}

	a := &responseRun{exchange: x, req: req}
	a.output.label = req.Model
	var err error
	a.input, err = req.read()
	return a, err
}

func (a *responseRun) id() responseID { return responseID{a.runID, a.session, a.req.Background} }

// responseID is the id of a response. It has the run and its session, so that it is valid after a
// restart.
type responseID struct {
	run, session string
	background   bool
}

const (
	responsePrefix   = "resp_"
	backgroundPrefix = "bg_" // after responsePrefix
)

func (id responseID) String() string {
	prefix := responsePrefix
	if id.background {
		prefix += backgroundPrefix
	}

	return prefix + strings.TrimPrefix(callID(id.session, id.run), callPrefix)
}

func parseResponseID(text string) (responseID, bool) {
	rest, ok := strings.CutPrefix(text, responsePrefix)
	rest, background := strings.CutPrefix(rest, backgroundPrefix)
	session, run := parseCallID(callPrefix + rest)
	return responseID{run, session, background}, ok && session != ""
}
