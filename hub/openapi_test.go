package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

// everyAnswer has the headers that no answer lacks, for which the document has one paragraph.
var everyAnswer = map[string]string{
	"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
	"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
}

// uuids is the form in which the hub writes its ids.
var uuids = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// document is the OpenAPI document, made strict: what it does not name must not come in an answer.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.FileBodyDecoder)
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background(), openapi3.EnableSchemaFormatValidation()); err != nil {
		return nil, err
	}
	doc.Servers = nil // answers come from test servers
	open := map[*openapi3.Schema]bool{}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			if op.RequestBody != nil {
				open[op.RequestBody.Value.Content["application/json"].Schema.Value] = true // other fields are ignored
			}
		}
	}
	closed := false
	err = doc.WalkSchemas(func(_ string, s *openapi3.SchemaRef) error {
		if s.Value != nil && !open[s.Value] && s.Value.Type.Is("object") && s.Value.AdditionalProperties.Schema == nil && len(s.Value.Properties) > 0 {
			s.Value.AdditionalProperties.Has = &closed
		}
		return nil
	})
	return doc, err
})

// contract holds the answers of a hub against the document, and notes which it saw.
type contract struct {
	*site
	doc    *openapi3.T
	router routers.Router
	later  *atomic.Int64   // by how much the hub's clock is ahead
	seen   map[string]bool // "POST /auth/login 401 invalid_credentials"
	fields map[string]bool // "GET /auth/mode 200 setup_required"
}

// judged serves a hub on the database whose answers are held against the document.
func judged(t *testing.T, url string) *contract {
	t.Helper()
	doc, err := document()
	require.NoError(t, err)
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	c := &contract{doc: doc, router: router, later: new(atomic.Int64), seen: map[string]bool{}, fields: map[string]bool{}}
	c.site = open(t, url, func(cfg *hub.Config) { cfg.Now = c.now })
	return c
}

func (c *contract) now() time.Time           { return time.Now().Add(time.Duration(c.later.Load())) }
func (c *contract) wait(after time.Duration) { c.later.Add(int64(after)) }

func options() *openapi3filter.Options {
	return &openapi3filter.Options{
		IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SchemaValidationOptions: schemaOptions(),
	}
}

func schemaOptions() []openapi3.SchemaValidationOption {
	return []openapi3.SchemaValidationOption{
		openapi3.EnableJSONSchema2020(),
		openapi3.WithStringFormatValidator("uuid", openapi3.NewRegexpFormatValidator(uuids.String())),
	}
}

// send sends a request, with the headers given as names and values, and holds the answer against the document.
func (c *contract) send(method, path, token, body string, headers ...string) answer {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	require.NoError(c.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.client.Do(req)
	require.NoError(c.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	a := answer{t: c.t, status: res.StatusCode, header: res.Header, text: string(text)}
	if method == http.MethodHead {
		return a
	}
	c.judge(method, path, body, a)
	if method == http.MethodGet {
		head := c.send(http.MethodHead, path, token, "", headers...)
		require.Equal(c.t, a.status, head.status, "%s", path)
		require.Empty(c.t, head.text, path)
		for name := range a.header {
			require.True(c.t, name == "Content-Length" || head.header.Get(name) != "", "HEAD %s has no %s", path, name)
		}
	}
	return a
}

// refuse sends a request that is to be refused with that code.
func (c *contract) refuse(status int, code api.Code, method, path, token, body string, headers ...string) {
	c.t.Helper()
	c.send(method, path, token, body, headers...).refused(status, string(code))
}

// judge holds an answer, and where it accepts the request that too, against the operation that the document has for it.
func (c *contract) judge(method, path, body string, a answer) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
	require.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	route, params, err := c.router.FindRoute(req)
	require.NoError(c.t, err, "%s %s", method, path)
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options()}
	what := fmt.Sprintf("%s %s %s answered %d %v %s", method, path, body, a.status, a.header, a.text)
	switch err := openapi3filter.ValidateRequest(c.t.Context(), in); {
	case a.status == http.StatusBadRequest && !unforeseen(path, body):
		require.Error(c.t, err, "the document permits what was refused: %s", what)
	case a.status < 400:
		require.NoError(c.t, err, what)
	}
	c.check(in, a, what)
	name := method + " " + route.Path + " " + fmt.Sprint(a.status)
	c.seen[name] = true
	if !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		return
	}
	var value map[string]any
	require.NoError(c.t, json.Unmarshal([]byte(a.text), &value), what)
	if code, ok := value["code"].(string); ok {
		c.seen[name+" "+code] = true
		require.Equal(c.t, a.header.Get("X-Request-Id"), value["requestId"])
	}
	c.note(name, value)
}

// unforeseen holds for what no schema can refuse: bytes and escapes that are gone once a text is read, and a number that is too large.
func unforeseen(path, body string) bool {
	return !utf8.ValidString(body) || strings.Contains(body, `\u0000`) || strings.Contains(path, "18446744073709551616") || strings.Contains(path, "%zz")
}

// check holds an answer against an operation, with its headers.
func (c *contract) check(in *openapi3filter.RequestValidationInput, a answer, what string) {
	c.t.Helper()
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: a.status, Header: a.header, Options: options()}
	out.SetBodyBytes([]byte(a.text))
	require.NoError(c.t, openapi3filter.ValidateResponse(c.t.Context(), out), what)
	documented := in.Route.Operation.Responses.Status(a.status).Value.Headers
	for name, values := range a.header {
		if want, ok := everyAnswer[name]; ok {
			require.Equal(c.t, []string{want}, values, what)
		} else if !slices.Contains([]string{"Content-Type", "Content-Length", "Date"}, name) {
			require.True(c.t, slices.ContainsFunc(keys(documented), func(k string) bool { return http.CanonicalHeaderKey(k) == name }),
				"the document does not know header %s of %s", name, what)
		}
	}
	for name := range everyAnswer {
		require.Contains(c.t, a.header, name, what)
	}
}

// note remembers which fields an answer had, those of items as if they were its own.
func (c *contract) note(at string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			c.fields[at+" "+name] = true
			c.note(at+" "+name, inner)
		}
	case []any:
		for _, inner := range value {
			c.note(at, inner)
		}
	}
}

// operations lists what the document has, as "GET /auth/mode" and its operation.
func (c *contract) operations() map[string]*openapi3.Operation {
	all := map[string]*openapi3.Operation{}
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			all[method+" "+path] = op
		}
	}
	return all
}

func (c *contract) schema(ref string) *openapi3.Schema {
	c.t.Helper()
	s := c.doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	require.NotNil(c.t, s, ref)
	return s.Value
}

// complete fails for what the document has and the walk did not see.
func (c *contract) complete() {
	c.t.Helper()
	var missing []string
	saw := func(seen map[string]bool, what string) {
		if seen[what] == (unseen[what] != "") {
			missing = append(missing, what)
		}
	}
	for name, op := range c.operations() {
		for status, response := range op.Responses.Map() {
			at := name + " " + status
			saw(c.seen, at)
			content := response.Value.Content["application/json"]
			if content == nil || unseen[at] != "" {
				continue
			}
			for _, code := range codesOf(content.Schema.Value) {
				saw(c.seen, at+" "+code)
			}
			for _, field := range fieldsOf(content.Schema.Value, "") {
				saw(c.fields, at+field)
			}
		}
	}
	require.Empty(c.t, missing, "not seen, or seen though it is said not to be: %s", strings.Join(missing, "\n"))
}

// codesOf are the codes that an error may have.
func codesOf(s *openapi3.Schema) (codes []string) {
	for _, branch := range s.OneOf {
		codes = append(codes, codesOf(branch.Value)...)
	}
	if code := s.Properties["code"]; code != nil {
		if code.Value.Const != nil {
			return append(codes, fmt.Sprint(code.Value.Const))
		}
		for _, value := range code.Value.Enum {
			codes = append(codes, fmt.Sprint(value))
		}
	}
	return codes
}

// fieldsOf are the fields that an answer may have, as " items id".
func fieldsOf(s *openapi3.Schema, at string) (fields []string) {
	for _, branch := range s.OneOf {
		fields = append(fields, fieldsOf(branch.Value, at)...)
	}
	for name, property := range s.Properties {
		fields = append(append(fields, at+" "+name), fieldsOf(property.Value, at+" "+name)...)
	}
	if s.Items != nil {
		fields = append(fields, fieldsOf(s.Items.Value, at)...)
	}
	return fields
}

func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	c := judged(t, dbtest.SQLite(t))
	variable := regexp.MustCompile(`:(\w+)`)
	operations := c.operations()
	for _, route := range c.Routes() {
		name := route.Method + " " + variable.ReplaceAllString(route.Path, "{$1}")
		op := operations[name]
		require.NotNil(t, op, "the document has no %s", name)
		delete(operations, name)
		roles := []any{"anyone"}
		if route.Access != api.Open {
			roles = nil
			for _, role := range []rbac.Role{rbac.Admin, rbac.Maintainer, rbac.Member} {
				if route.Access == api.SignedIn || route.Group.Allows(role) {
					roles = append(roles, string(role))
				}
			}
		}
		require.Equal(t, roles, op.Extensions["x-roles"], name)
		security := "the bearer of the whole document"
		if op.Security != nil {
			security = fmt.Sprint(len(*op.Security), " alternatives")
		}
		want := map[bool]string{true: "0 alternatives", false: "the bearer of the whole document"}[route.Access == api.Open]
		if route.Path == "/auth/logout" {
			want = "2 alternatives" // a bearer, or none
		}
		require.Equal(t, want, security, name)
	}
	require.Empty(t, keys(operations), "operations that are no routes")
}

func TestMethodsAndPathsThatAreNotInTheDocument(t *testing.T) {
	c := judged(t, dbtest.SQLite(t))
	refused := func(response, method, path string) answer {
		a := c.call(method, path, "", "")
		op := &openapi3.Operation{Responses: openapi3.NewResponses(openapi3.WithStatus(a.status, c.doc.Components.Responses[response]))}
		req, err := http.NewRequestWithContext(t.Context(), method, path, nil)
		require.NoError(t, err)
		c.check(&openapi3filter.RequestValidationInput{Request: req, Options: options(),
			Route: &routers.Route{Spec: c.doc, Operation: op, PathItem: &openapi3.PathItem{}}}, a, method+" "+path+" "+a.text)
		return a
	}
	for path, item := range c.doc.Paths.Map() {
		existing := strings.NewReplacer("{", "", "}", "").Replace(path)
		known := keys(item.Operations())
		var allowed []string // not what only ever answers 404: it belongs to the other mode
		for method, op := range item.Operations() {
			if op.Responses.Len() == 1 && op.Responses.Value("404") != nil {
				continue
			}
			if allowed = append(allowed, method); method == "GET" {
				allowed = append(allowed, "HEAD")
			}
		}
		slices.Sort(allowed)
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(known, method) {
				require.NotEqual(t, http.StatusMethodNotAllowed, c.call(method, existing, "", "").status, "%s %s", method, path)
				continue
			}
			a := refused("MethodNotAllowed", method, existing)
			require.Equal(t, http.StatusMethodNotAllowed, a.status)
			require.Equal(t, strings.Join(allowed, ", "), a.header.Get("Allow"), "%s %s", method, path)
		}
		for _, unknown := range []string{existing + "/", existing + "/more/of/it", "/v2" + existing, strings.ToUpper(existing)} {
			require.Equal(t, http.StatusNotFound, refused("NotFound", "GET", unknown).status, unknown)
		}
	}
	for _, unknown := range []string{"/", "/auth", "/api/v1", "/metrics", "/openapi.yaml", "/auth/callback", "/auth/org-check", "/api/v1/ops/tenant-clients"} {
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
