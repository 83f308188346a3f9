package runtime_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/openapitest"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/sse"
)

// document is read once: it takes longer than most tests.
var document = sync.OnceValues(func() (*openapitest.Document, error) {
	return openapitest.Load(openapitest.Config{File: "openapi.yaml", Streams: []string{"application/yaml", "text/html", "text/event-stream"}, Plain: []string{"X-Content-Type-Options", "Cache-Control"},
		Headers: map[string]string{"Cross-Origin-Resource-Policy": "same-origin"}})
})

// contract validates responses against the document and records which ones occurred.
type contract struct {
	t    *testing.T
	doc  *openapitest.Document
	seen map[string]bool // "GET /health 200", and "event result/success"

	// unforeseen reports that requests are rejected because of the files, which the document cannot
	// describe.
	unforeseen bool
}

func newContract(t *testing.T) *contract {
	t.Helper()
	doc, err := document()
	require.NoError(t, err)
	return &contract{t: t, doc: doc, seen: map[string]bool{}}
}

// call sends a request to a runtime and validates the response.
func (c *contract) call(b *bench, method, path, body string, headers ...string) response {
	c.t.Helper()
	res := b.do(c.t, method, path, body, headers...)
	c.judge(method, path, body, res)
	return res
}

// judge validates the response to a request against the operation in the document.
func (c *contract) judge(method, path, body string, res response) {
	c.t.Helper()
	x := exchange(method, path, body, res)
	x.Unforeseen = c.unforeseen || strings.Contains(res.body, "not UTF-8") // which strings of Go are made to be
	route, err := c.doc.Check(x)
	require.NoError(c.t, err)
	requireUncached(c.t, method+" "+path, res)
	if strings.HasPrefix(res.header.Get("Content-Type"), "text/event-stream") {
		c.events(route.Operation, res.body)
	}
	c.seen[fmt.Sprintf("%s %s %d", method, route.Path, res.status)] = true
}

func exchange(method, path, body string, res response) openapitest.Exchange {
	return openapitest.Exchange{Method: method, Target: path, Body: body, Status: res.status, Header: res.header, Answer: res.body}
}

// events validates each event of a stream against its schema, and the order of the events.
func (c *contract) events(op *openapi3.Operation, body string) {
	c.t.Helper()
	schemas, ok := op.Responses.Status(200).Value.Content["text/event-stream"].Extensions["x-events"].(map[string]any)
	require.True(c.t, ok, "the document describes the events")
	var all []string
	for ev, err := range sse.NewDecoder(strings.NewReader(body + "\n")).Events() {
		require.NoError(c.t, err)
		ref, ok := schemas[ev.Type].(string)
		require.True(c.t, ok, "the document does not know event %s", ev.Type)
		var data map[string]any
		require.NoError(c.t, json.Unmarshal(ev.Data, &data), "%s", ev.Data)
		require.NoError(c.t, c.doc.Fits(ref, data), "%s %s", ev.Type, ev.Data)
		kind := data["subtype"]
		if partial, ok := data["partial"].(map[string]any); ok {
			kind = partial["type"]
		}
		name := strings.TrimSuffix(fmt.Sprintf("%s/%v", ev.Type, kind), "/<nil>")
		c.seen["event "+name] = true
		all = append(all, name)
	}
	require.Equal(c.t, "system/init", all[0])
	require.NotContains(c.t, all[1:], "system/init")
	require.Equal(c.t, "done", all[len(all)-1])
	for i, name := range all {
		end := slices.Contains([]string{"result", "cancelled", "error"}, strings.Split(name, "/")[0])
		require.Equal(c.t, i == len(all)-2, end, "%v", all)
	}
}

// existing returns a request path for a path of the document.
func existing(path string) string {
	return strings.NewReplacer("{agentId}", "helper", "{runId}", "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3",
		"{sessionId}", "unknown").Replace(path)
}

func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	c, b := newContract(t), serve(t, nil, nil)
	variable := regexp.MustCompile(`\{(\w+)\}`)
	var documented []string
	for name := range c.doc.All() {
		documented = append(documented, variable.ReplaceAllString(name, ":$1"))
	}
	require.ElementsMatch(t, b.Routes(), documented)
}

func TestMethodsAndPathsThatAreNotInTheDocument(t *testing.T) {
	c, b := newContract(t), serve(t, nil, nil)
	rejected := func(name, method, path string) response {
		res := b.do(t, method, path, "")
		requireUncached(t, method+" "+path, res)
		require.NoError(t, c.doc.CheckOutside(name, exchange(method, path, "", res)))
		return res
	}
	for path, item := range c.doc.Paths.Map() {
		known := slices.Sorted(maps.Keys(item.Operations()))
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if res := b.do(t, method, existing(path), ""); slices.Contains(known, method) {
				require.NotEqual(t, http.StatusMethodNotAllowed, res.status, "%s %s", method, path)
				require.NotEqual(t, `{"error":"Not found"}`, res.body, "%s %s", method, path)
				continue
			}
			if method != "HEAD" { // its response has no body
				res := rejected("MethodNotAllowed", method, existing(path))
				require.Equal(t, http.StatusMethodNotAllowed, res.status)
				allowed := strings.Split(res.header.Get("Allow"), ", ")
				require.ElementsMatch(t, known, allowed, "%s %s", method, path)
			}
		}
		for _, unknown := range []string{existing(path) + "/", existing(path) + "/more", "/v2" + existing(path),
			strings.ToUpper(existing(path))} {
			if unknown != "/v1/agents/more" && unknown != "/" { // an agent, and the start page
				require.Equal(t, http.StatusNotFound, rejected("NotFound", "GET", unknown).status, unknown)
			}
		}
	}
	for _, unknown := range []string{"/v1", "/v1/runs", "/v1/files/", "/v1/files/content/", "/v1/files/a.txt",
		"/metrics", "/openapi.yml", "/favicon.ico"} {
		require.Equal(t, http.StatusNotFound, rejected("NotFound", "GET", unknown).status, unknown)
	}
}

// everything returns replies with all kinds of content.
func everything() []modeltest.Reply {
	return []modeltest.Reply{
		modeltest.Stream(modeltest.Thinking("Hm."), modeltest.Signature("c2ln"), modeltest.Text("One moment."), modeltest.ToolCall("t1", "greet", `{"name":"Ada"}`), modeltest.ToolCall("t2", "erase", `{}`)),
		modeltest.Stream(modeltest.Text("Done.")),
	}
}

const withSchema = `{"message":"hello","outputSchema":{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}}`
