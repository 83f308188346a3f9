package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/sse"
)

// uuids is the form in which the runtime writes its ids.
var uuids = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// document is the OpenAPI document, made strict: what it does not name must not come.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.FileBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background(), openapi3.EnableSchemaFormatValidation()); err != nil {
		return nil, err
	}
	doc.Servers = nil // answers come from test servers
	closed := false
	request := doc.Components.Schemas["RunRequest"].Value // other fields of it are ignored
	err = doc.WalkSchemas(func(_ string, s *openapi3.SchemaRef) error {
		if s.Value != nil && s.Value != request && s.Value.Type.Is("object") && s.Value.AdditionalProperties.Schema == nil && len(s.Value.Properties) > 0 {
			s.Value.AdditionalProperties.Has = &closed
		}
		return nil
	})
	return doc, err
})

// contract holds answers against the document, and notes which of its answers were seen.
type contract struct {
	t      *testing.T
	doc    *openapi3.T
	router routers.Router
	seen   map[string]bool // "GET /health 200", and "event result/success"

	// unforeseen says that requests are refused for what no document can know: what the files are.
	unforeseen bool
}

func newContract(t *testing.T) *contract {
	t.Helper()
	doc, err := document()
	require.NoError(t, err)
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	return &contract{t: t, doc: doc, router: router, seen: map[string]bool{}}
}

// options make the validator look at what it leaves alone otherwise.
func options() *openapi3filter.Options {
	o := &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	o.SchemaValidationOptions = schemaOptions()
	return o
}

func schemaOptions() []openapi3.SchemaValidationOption {
	return []openapi3.SchemaValidationOption{
		openapi3.EnableJSONSchema2020(),
		openapi3.WithStringFormatValidator("uuid", openapi3.NewCallbackValidator(func(s string) error {
			if !uuids.MatchString(s) {
				return fmt.Errorf("%q is no UUID in lower case", s)
			}
			return nil
		})),
	}
}

// call sends a request to a runtime and judges its answer.
func (c *contract) call(b *bench, method, path, body string, headers ...string) answer {
	c.t.Helper()
	a := b.do(c.t, method, path, body, headers...)
	c.judge(method, path, body, a)
	return a
}

// judge holds the answer to a request against the operation that the document has for it.
func (c *contract) judge(method, path, body string, a answer) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
	require.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	route, params, err := c.router.FindRoute(req)
	require.NoError(c.t, err, "%s %s", method, path)
	c.check(&openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options()}, a)
	c.seen[fmt.Sprintf("%s %s %d", method, route.Path, a.status)] = true
}

// check holds an answer, and where it accepts the request that too, against an operation.
func (c *contract) check(in *openapi3filter.RequestValidationInput, a answer) {
	c.t.Helper()
	what := fmt.Sprintf("%s %s answered %d %v %s", in.Request.Method, in.Request.URL, a.status, a.header, a.body)
	err := openapi3filter.ValidateRequest(c.t.Context(), in)
	switch {
	case a.status == http.StatusBadRequest && !c.unforeseen && !strings.Contains(a.body,
		"not UTF-8"): // which strings of Go are made to be
		require.Error(c.t, err, "the document permits what was refused: %s", what)
	case a.status < 400:
		require.NoError(c.t, err, what)
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.header,
		Options: options()}
	out.SetBodyBytes([]byte(a.body))
	require.NoError(c.t, openapi3filter.ValidateResponse(c.t.Context(), out), what)
	if in.Request.Method == http.MethodHead {
		require.Empty(c.t, a.body, what)
		require.NotNil(c.t, in.Route.Operation.Responses.Status(a.status), what)
	}
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		c.events(in.Route.Operation, a.body)
	}
	for name := range a.header {
		plain := []string{"Content-Type", "Content-Length", "Date", "X-Content-Type-Options"}
		if documented := in.Route.Operation.Responses.Status(a.status).Value.Headers; !slices.Contains(plain, name) {
			require.True(c.t, slices.ContainsFunc(keys(documented), func(k string) bool { return http.CanonicalHeaderKey(k) == name }),
				"the document does not know header %s of %s", name, what)
		}
	}
}

// events holds each event of a stream against its schema, and their order against the description.
func (c *contract) events(op *openapi3.Operation, body string) {
	c.t.Helper()
	schemas, ok := op.Responses.Status(200).Value.Content["text/event-stream"].Extensions["x-events"].(map[string]any)
	require.True(c.t, ok, "the document tells the events")
	var all []string
	for ev, err := range sse.NewDecoder(strings.NewReader(body + "\n")).Events() {
		require.NoError(c.t, err)
		ref, ok := schemas[ev.Type].(string)
		require.True(c.t, ok, "the document does not know event %s", ev.Type)
		var data map[string]any
		require.NoError(c.t, json.Unmarshal(ev.Data, &data), "%s", ev.Data)
		require.NoError(c.t, c.schema(ref).VisitJSON(data, schemaOptions()...), "%s %s", ev.Type, ev.Data)
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

func (c *contract) schema(ref string) *openapi3.Schema {
	c.t.Helper()
	s := c.doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	require.NotNil(c.t, s, ref)
	return s.Value
}

// operations lists what the document has, as "GET /v1/agents/{agentId}" and its operation.
func (c *contract) operations() map[string]*openapi3.Operation {
	all := map[string]*openapi3.Operation{}
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			all[method+" "+path] = op
		}
	}
	return all
}

// existing makes a request path of a path of the document.
func existing(path string) string {
	return strings.NewReplacer("{agentId}", "helper", "{runId}", "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3").Replace(path)
}

func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	c, b := newContract(t), serve(t, nil, nil)
	variable := regexp.MustCompile(`\{(\w+)\}`)
	var documented []string
	for name := range c.operations() {
		documented = append(documented, variable.ReplaceAllString(name, ":$1"))
	}
	require.ElementsMatch(t, b.Routes(), documented)
}

func TestMethodsAndPathsThatAreNotInTheDocument(t *testing.T) {
	c, b := newContract(t), serve(t, nil, nil)
	refused := func(response, method, path string) answer {
		a := b.do(t, method, path, "")
		op := &openapi3.Operation{Responses: openapi3.NewResponses(openapi3.WithStatus(a.status, c.doc.Components.Responses[response]))}
		req, err := http.NewRequestWithContext(t.Context(), method, path, nil)
		require.NoError(t, err)
		c.check(&openapi3filter.RequestValidationInput{Request: req,
			Route: &routers.Route{Spec: c.doc, Operation: op, PathItem: &openapi3.PathItem{}}}, a)
		return a
	}
	for path, item := range c.doc.Paths.Map() {
		known := keys(item.Operations())
		slices.Sort(known)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if a := b.do(t, method, existing(path), ""); slices.Contains(known, method) {
				require.NotEqual(t, http.StatusMethodNotAllowed, a.status, "%s %s", method, path)
				require.NotEqual(t, `{"error":"Not found"}`, a.body, "%s %s", method, path)
				continue
			}
			if method != "HEAD" { // its answer has no body
				a := refused("MethodNotAllowed", method, existing(path))
				require.Equal(t, http.StatusMethodNotAllowed, a.status)
				allowed := strings.Split(a.header.Get("Allow"), ", ")
				require.ElementsMatch(t, known, allowed, "%s %s", method, path)
			}
		}
		for _, unknown := range []string{existing(path) + "/", existing(path) + "/more", "/v2" + existing(path),
			strings.ToUpper(existing(path))} {
			if unknown != "/v1/agents/more" { // that one is an agent
				require.Equal(t, http.StatusNotFound, refused("NotFound", "GET", unknown).status, unknown)
			}
		}
	}
	for _, unknown := range []string{"/", "/v1", "/v1/runs", "/v1/files/", "/v1/files/content/", "/v1/files/a.txt",
		"/metrics", "/openapi.yaml", "/favicon.ico"} {
		require.Equal(t, http.StatusNotFound, refused("NotFound", "GET", unknown).status, unknown)
	}
}

func keys[V any](m map[string]V) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	return all
}
