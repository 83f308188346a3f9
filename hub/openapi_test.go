package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
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
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/openapitest"
	"github.com/seed93082962/agenthost/rbac"
)

// everyResponse has the headers of every response, for which the document has one paragraph.
var everyResponse = map[string]string{
	"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
	"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
}

// document is read once: it takes longer than most tests.
var document = sync.OnceValues(func() (*openapitest.Document, error) {
	return openapitest.Load(openapitest.Config{File: "openapi.yaml", Streams: []string{"application/yaml", "text/html", "text/javascript", "text/css", "application/x-ndjson", "text/event-stream"}, Headers: everyResponse, Plain: []string{"X-Accel-Buffering", "RateLimit", "RateLimit-Policy"}})
})

// coverage is what occurred of the document.
type coverage struct {
	seen    map[string]bool // "POST /auth/login 401 invalid_credentials"
	fields  map[string]bool // "GET /auth/mode 200 setup_required"
	actions map[string]bool // of entries of the audit log
}

func newCoverage() *coverage {
	return &coverage{seen: map[string]bool{}, fields: map[string]bool{}, actions: map[string]bool{}}
}

// add adds the other coverage.
func (c *coverage) add(other *coverage) {
	maps.Copy(c.seen, other.seen)
	maps.Copy(c.fields, other.fields)
	maps.Copy(c.actions, other.actions)
}

// contract checks the responses of a hub against the document and collects the ones that occurred.
type contract struct {
	*server
	*coverage
	doc      *openapitest.Document
	database string        // its URL
	later    *atomic.Int64 // by how much the hub's clock is ahead
	files    *files        // of tools and skills
	deployer *deploytest.Memory
	failing  atomic.Bool // runtimes fail all requests
}

// newContract serves a hub on the database. Its responses are checked against the document.
func newContract(t *testing.T, url string) *contract {
	t.Helper()
	doc, err := document()
	require.NoError(t, err)
	c := &contract{coverage: newCoverage(), doc: doc, database: url, later: new(atomic.Int64), files: &files{}, deployer: &deploytest.Memory{}}
	c.deployer.Serve = c.runtimeOf
	t.Cleanup(c.deployer.Close)
	c.server = open(t, url, func(cfg *hub.Config) {
		cfg.MaxDeployment = deploy.Bounds{Memory: "16384Gi", CPU: "1024000m", Processes: 1 << 22, Replicas: 100}
		cfg.Now, cfg.Artifacts, cfg.ProbePrivate, cfg.ChatPushKey, cfg.Deployer = c.now, c.files, true, pushKey, c.deployer
	})
	return c
}

// now is a year ago at first, so that entries can be older than a retention by the clock of the
// database.
func (c *contract) now() time.Time {
	return time.Now().AddDate(-1, 0, 0).Add(time.Duration(c.later.Load()))
}
func (c *contract) wait(after time.Duration) { c.later.Add(int64(after)) }

// send sends a request, with the headers given as names and values, and checks the response
// against the document.
func (c *contract) send(method, path, token, body string, headers ...string) response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	require.NoError(c.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(path, "/console/session") && method != http.MethodGet {
		req.Header.Set("Origin", c.url) // as a page of the hub
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	received, err := c.client.Do(req)
	require.NoError(c.t, err)
	defer received.Body.Close()
	text, err := io.ReadAll(received.Body)
	require.NoError(c.t, err)
	res := response{t: c.t, status: received.StatusCode, header: received.Header, text: string(text)}
	if method == http.MethodHead {
		return res
	}
	media, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	c.check(method, path, body, media, res)
	if method == http.MethodGet && !strings.HasPrefix(path, "/auth/callback") { // which HEAD does not complete
		head := c.send(http.MethodHead, path, token, "", headers...)
		require.Equal(c.t, res.status, head.status, "%s", path)
		require.Empty(c.t, head.text, path)
		for name := range res.header {
			require.True(c.t, name == "Content-Length" || head.header.Get(name) != "", "HEAD %s has no %s", path, name)
		}
	}
	return res
}

// reject sends a request that must be rejected with that code.
func (c *contract) reject(status int, code wire.Code, method, path, token, body string, headers ...string) {
	c.t.Helper()
	c.send(method, path, token, body, headers...).wantError(status, string(code))
}

// check compares a response, and a request that was accepted, with the operation in the document.
func (c *contract) check(method, path, body, media string, res response) {
	c.t.Helper()
	x := exchange(method, path, body, res)
	x.Media, x.Unforeseen = media, noSchemaRejects(path, body)
	route, err := c.doc.Check(x)
	require.NoError(c.t, err)
	name := method + " " + route.Path + " " + fmt.Sprint(res.status)
	c.seen[name] = true
	if !strings.HasPrefix(res.header.Get("Content-Type"), "application/json") {
		return
	}
	var value map[string]any
	require.NoError(c.t, json.Unmarshal([]byte(res.text), &value), res.text)
	if code, ok := value["code"].(string); ok {
		c.seen[name+" "+code] = true
		require.Equal(c.t, res.header.Get("X-Request-Id"), value["requestId"])
	}
	c.recordFields(name, value)
}

func exchange(method, path, body string, res response) openapitest.Exchange {
	return openapitest.Exchange{Method: method, Target: path, Body: body, Status: res.status, Header: res.header, Answer: res.text}
}

// noSchemaRejects reports whether a schema cannot express why a request is rejected: bytes and
// escapes that a parser replaces, a number that is too large, an unknown id, or the cursor of
// another transcript.
func noSchemaRejects(path, body string) bool {
	return !utf8.ValidString(body) || strings.Contains(body, `\u0000`) || strings.Contains(body, unknownID) || strings.Contains(path, "18446744073709551616") || strings.Contains(path, "%zz") || strings.Contains(path, "cursor=1-00000000") ||
		strings.Contains(path, "path=..") || // the runtime resolves paths
		strings.HasSuffix(path, "/chat/uploads") // bytes have no schema
}

// recordFields records the fields of a response. The fields of items count as its own.
func (c *contract) recordFields(at string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			c.fields[at+" "+name] = true
			c.recordFields(at+" "+name, inner)
		}
	case []any:
		for _, inner := range value {
			c.recordFields(at, inner)
		}
	}
}

func (c *contract) schema(ref string) *openapi3.Schema {
	c.t.Helper()
	s := c.doc.Schema(ref)
	require.NotNil(c.t, s, ref)
	return s
}

// operations returns those of the hub of the walk, which is in built-in mode and has no operations
// interface. TestResponsesOfExternalMode has the others.
func (c *contract) operations() map[string]*openapi3.Operation {
	all := c.doc.All()
	maps.DeleteFunc(all, func(_ string, op *openapi3.Operation) bool { return op.Extensions["x-mode"] != nil })
	return all
}

// complete fails for what the document has and the walks did not see.
func (c *contract) complete() {
	c.t.Helper()
	for action := range c.details() {
		require.Equal(c.t, unrecorded[action] == "", c.actions[action], "%s: was it recorded?", action)
	}
	all := maps.Clone(unseen)
	maps.Copy(all, unseenCatalog)
	maps.Copy(all, unseenChats)
	for _, user := range []string{"POST /api/v1/admin/users 201", "PATCH /api/v1/admin/users/{id} 200", "GET /api/v1/admin/users/{id} 200", "GET /api/v1/admin/users 200 items"} {
		for _, field := range []string{" issuer", " subject", " email", " groups"} {
			all[user+field] = "only of users of an identity provider: external.TestUsersOfAnIdentityProvider and TestGroups"
		}
	}
	c.completeExcept(c.operations(), all)
}

func (c *contract) completeExcept(operations map[string]*openapi3.Operation, unseen map[string]string) {
	c.t.Helper()
	var missing []string
	saw := func(seen map[string]bool, what string) {
		if seen[what] == (unseen[what]+unseenDeployments[what] != "") {
			missing = append(missing, what)
		}
	}
	for name, op := range operations {
		for status, documented := range op.Responses.Map() {
			at := name + " " + status
			saw(c.seen, at)
			content := documented.Value.Content["application/json"]
			if content == nil || unseen[at] != "" {
				continue
			}
			for _, code := range codesOf(content.Schema.Value) {
				saw(c.seen, at+" "+code)
			}
			if changesDeployment.MatchString(at) {
				continue // which fields it has depends on the progress of the reconciler
			}
			for _, field := range fieldsOf(content.Schema.Value, "") {
				if field == " next" && !c.fields[at+field] {
					continue // of a page of 4 MiB: catalog.TestListsOfLargeAgents
				}
				saw(c.fields, at+field)
			}
		}
	}
	require.Empty(c.t, missing, "documented and not seen, or seen and listed in unseen: %s", strings.Join(missing, "\n"))
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

// fieldsOf returns the fields that a response may have, such as " items id".
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
	c := newContract(t, sqlite(t))
	variable := regexp.MustCompile(`:(\w+)`)
	operations := c.doc.All()
	known := map[string]bool{}
	for _, route := range append(c.Routes(), c.externalMode().Routes()...) {
		if route.Prefix {
			continue // the description of deployments mentions it
		}
		id := route.Method + " " + route.Path
		if known[id] || route.Hidden && route.Method == http.MethodPost {
			continue // of both modes, or 404 in external mode
		}
		known[id] = true
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
		if op.Extensions["x-mode"] == "ops" {
			want = "1 alternatives"
		}
		if route.Path == "/auth/logout" || route.Path == pushChats {
			want = "2 alternatives" // a bearer, or none, or a key
		}
		require.Equal(t, want, security, name)
	}
	require.Empty(t, operations, "operations that are no routes")
}

func TestMethodsAndPathsThatAreNotInTheDocument(t *testing.T) {
	c := newContract(t, sqlite(t))
	rejected := func(name, method, path string) response {
		res := c.call(method, path, "", "")
		require.NoError(t, c.doc.CheckOutside(name, exchange(method, path, "", res)))
		return res
	}
	for path := range c.doc.Paths.Map() {
		existing := strings.NewReplacer("{", "", "}", "").Replace(path)
		operations := c.operationsOf(existing)
		known := slices.Collect(maps.Keys(operations))
		var allowed []string // not a route of external mode, which is 404 here
		for method, op := range operations {
			if op.Extensions["x-mode"] != nil {
				continue
			}
			if allowed = append(allowed, method); method == "GET" {
				allowed = append(allowed, "HEAD")
			}
		}
		if len(allowed) == 0 {
			continue
		}
		slices.Sort(allowed)
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(known, method) {
				require.NotEqual(t, http.StatusMethodNotAllowed, c.call(method, existing, "", "").status, "%s %s", method, path)
				continue
			}
			res := rejected("MethodNotAllowed", method, existing)
			require.Equal(t, http.StatusMethodNotAllowed, res.status)
			require.Equal(t, strings.Join(allowed, ", "), res.header.Get("Allow"), "%s %s", method, path)
		}
		for _, unknown := range []string{existing + "/", existing + "/more/of/it/all", "/v2" + existing, strings.ToUpper(existing)} {
			if unknown != "/" { // the start page
				require.Equal(t, http.StatusNotFound, rejected("NotFound", "GET", unknown).status, unknown)
			}
		}
	}
	for _, unknown := range []string{"/auth", "/api/v1", "/metrics", "/openapi.yml", "/auth/callback", "/auth/org-check", "/api/v1/ops/tenant-clients"} {
		require.Equal(t, http.StatusNotFound, rejected("NotFound", "GET", unknown).status, unknown)
	}
}

// operationsOf returns the operations of all paths that match, by method: /providers/probe also
// matches /providers/{id}.
func (c *contract) operationsOf(path string) map[string]*openapi3.Operation {
	segments, all := strings.Split(path, "/"), map[string]*openapi3.Operation{}
	for pattern, item := range c.doc.Paths.Map() {
		if slices.EqualFunc(strings.Split(pattern, "/"), segments, func(want, got string) bool {
			return want == got || strings.HasPrefix(want, "{")
		}) {
			maps.Copy(all, item.Operations())
		}
	}
	return all
}

// newcomer creates a user, changes the first password to the one of enter, and returns the path of
// the user.
func (c *contract) newcomer(admin, name, role string) string {
	c.t.Helper()
	path := users + "/" + c.ok(201, "POST", users, admin, strings.Replace(userBody(name, role), password, firstPassword, 1))["id"].(string)
	body := c.ok(200, "POST", "/auth/login", "", `{"username":"`+name+`","password":"`+firstPassword+`"}`)
	access := body["access_token"].(string)
	c.ok(204, "POST", "/auth/change-password", access, `{"old_password":"`+firstPassword+`","new_password":"`+password+`"}`)
	c.ok(204, "POST", "/auth/logout", access, "")
	return path
}
