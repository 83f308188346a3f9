package chat_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/openapitest"
	"github.com/seed93082962/agenthost/sse"
)

// schemas are those of the public documents of the protocols, in which objects have no further
// members. Package runtime/protocol/openai has them.
var schemas = sync.OnceValues(func() (all []*openapitest.Document, err error) {
	for _, name := range []string{"chat", "responses"} {
		doc, err := openapitest.Load(openapitest.Config{File: "../../../runtime/protocol/openai/testdata/" + name + ".yaml"})
		if err != nil {
			return nil, err
		}
		all = append(all, doc)
	}
	return all, nil
})

// fits reports a value that is not valid by a public schema.
func fits(t *testing.T, schema string, data []byte) {
	all, err := schemas()
	if err != nil {
		t.Error(err)
		return
	}
	var v object
	if err := json.Unmarshal(data, &v); err != nil {
		t.Errorf("%s: %v: %s", schema, err, data)
		return
	}
	if metadata, ok := v["metadata"].(object); ok && metadata["aigc"] != nil && strings.HasPrefix(schema, "CreateChatCompletion") {
		delete(v, "metadata") // the label of an answer, which the document does not have
	}
	for _, doc := range all {
		if doc.Components.Schemas[schema] != nil {
			if err := doc.Fits(schema, v); err != nil {
				t.Errorf("%s: %v: %s", schema, err, data)
			}
			return
		}
	}
	t.Errorf("no schema %q: %s", schema, data)
}

// recorded is a response that is recorded.
type recorded struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *recorded) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *recorded) WriteHeader(status int) {
	if w.status < http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorded) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body.Write(p)
	return w.ResponseWriter.Write(p)
}

// valid checks everything that the interface of OpenAI sends against the public schemas.
func valid(t *testing.T, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(r.URL.Path, "/openai/v1/")
		if !ok || r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		res := &recorded{ResponseWriter: w}
		next.ServeHTTP(res, r)
		if r.Context().Err() != nil { // the client is gone
			return
		}
		kind, id, _ := strings.Cut(path, "/")
		switch schema := map[string]string{"models": "Model", "chat": "CreateChatCompletionResponse", "responses": "ResponseResource"}[kind]; {
		case res.status >= http.StatusBadRequest:
			fits(t, "ErrorResponse", res.body.Bytes())
		case strings.HasPrefix(res.Header().Get("Content-Type"), "text/event-stream"):
			validStream(t, res.body.String())
		case path == "models":
			fits(t, "ListModelsResponse", res.body.Bytes())
		case id == "compact":
			fits(t, "CompactResource", res.body.Bytes())
		case r.Method != http.MethodDelete:
			fits(t, schema, res.body.Bytes())
		}
	})
}

func validStream(t *testing.T, body string) {
	for event, err := range sse.NewDecoder(strings.NewReader(body)).Events() {
		var v struct {
			Type  string
			Error json.RawMessage
		}
		switch {
		case err != nil:
			t.Error(err)
		case string(event.Data) == "[DONE]":
		case json.Unmarshal(event.Data, &v) != nil:
			t.Errorf("%s", event.Data)
		case v.Type != "":
			fits(t, "Event_"+v.Type, event.Data)
			if v.Type != event.Type {
				t.Errorf("the event %q has the type %q", event.Type, v.Type)
			}
		case v.Error != nil:
			fits(t, "ErrorResponse", event.Data)
		default:
			fits(t, "CreateChatCompletionStreamResponse", event.Data)
		}
	}
}

// What does not fit is found.
func TestTheSchemasAreThoseOfTheProtocol(t *testing.T) {
	t.Parallel()
	all, err := schemas()
	require.NoError(t, err)
	for _, schema := range []string{"ErrorResponse", "CreateChatCompletionResponse", "CreateChatCompletionStreamResponse", "ListModelsResponse", "Model"} {
		require.Error(t, all[0].Fits(schema, map[string]any{"object": "other"}), schema)
	}
	for _, schema := range []string{"ResponseResource", "CompactResource", "Event_response.created", "Event_response.output_text.delta"} {
		require.Error(t, all[1].Fits(schema, map[string]any{"object": "other"}), schema)
	}
}
