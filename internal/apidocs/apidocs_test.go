package apidocs_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/html"

	"github.com/seed93082962/agenthost/internal/apidocs"
)

const small = `openapi: 3.1.0
info: {title: "A <b>", version: v1, description: "Uses ` + "`code`" + ` and **bold**.\n\nSee [Error](#/components/schemas/Error)."}
tags: [{name: things, description: "About <script>alert(1)</script>"}]
paths:
  /things/{id}:
    get:
      operationId: getThing
      tags: [things]
      summary: Return a thing
      x-roles: [admin, member]
      parameters: [{$ref: "#/components/parameters/id"}]
      responses:
        "200": {description: The thing., content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}}
        "404": {$ref: "#/components/responses/NotFound"}
components:
  parameters: {id: {name: id, in: path, required: true, description: Its id., schema: {type: string}}}
  responses: {NotFound: {description: There is none.}}
  schemas: {Thing: {type: object}, Error: {type: object}}
`

func TestPageShowsTheDocument(t *testing.T) {
	docs := apidocs.New([]byte(small))
	w := httptest.NewRecorder()
	require.NoError(t, docs.ServePage(w, httptest.NewRequest(http.MethodGet, "/docs", nil)))
	page := w.Body.String()
	for _, want := range []string{
		"A &lt;b&gt; v1", "<code>code</code>", "<strong>bold</strong>", `<a href="#schema-Error">Error</a>`, `id="schema-Thing"`,
		"/things/{id}", "Return a thing", "admin, member", "Its id.", "There is none.", `<a href="#schema-Thing">Thing</a>`,
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "<script")
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-")
	w = httptest.NewRecorder()
	require.NoError(t, docs.ServeYAML(w, httptest.NewRequest(http.MethodGet, "/openapi.yaml", nil)))
	require.Equal(t, small, w.Body.String())
}

// The JSON form of a document has the values of its source, and is made once.
func TestJSONIsTheDocument(t *testing.T) {
	for _, file := range []string{"../../hub/openapi.yaml", "../../runtime/openapi.yaml"} {
		document, err := os.ReadFile(file)
		require.NoError(t, err)
		docs := apidocs.New(document)
		w := httptest.NewRecorder()
		require.NoError(t, docs.ServeJSON(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil)))
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.Equal(t, strconv.Itoa(w.Body.Len()), w.Header().Get("Content-Length"))
		require.True(t, json.Valid(w.Body.Bytes()), file)
		require.Equal(t, decoded(t, document), decoded(t, w.Body.Bytes()), file)
		requests := testing.AllocsPerRun(10, func() {
			require.NoError(t, docs.ServeJSON(httptest.NewRecorder(), httptest.NewRequest(http.MethodHead, "/openapi.json", nil)))
		})
		require.Less(t, requests, 100.0, "%s is converted for each request", file)
	}
}

// decoded returns the value of a text in YAML or JSON.
func decoded(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var value map[string]any
	require.NoError(t, yaml.Unmarshal(text, &value))
	return value
}

func TestHeadHasNoBody(t *testing.T) {
	docs := apidocs.New([]byte(small))
	w := httptest.NewRecorder()
	require.NoError(t, docs.ServePage(w, httptest.NewRequest(http.MethodHead, "/docs", nil)))
	require.Empty(t, w.Body.String())
	require.NotEmpty(t, w.Header().Get("Content-Length"))
}

// Every operation of both servers is on its page, every link has a target, and nothing is loaded.
func TestPagesOfBothServers(t *testing.T) {
	for _, file := range []string{"../../hub/openapi.yaml", "../../runtime/openapi.yaml"} {
		document, err := os.ReadFile(file)
		require.NoError(t, err)
		docs := apidocs.New(document)
		w := httptest.NewRecorder()
		require.NoError(t, docs.ServePage(w, httptest.NewRequest(http.MethodGet, "/docs", nil)))
		root, err := html.Parse(strings.NewReader(w.Body.String()))
		require.NoError(t, err)
		ids, links := map[string]bool{}, []string{}
		for n := range root.Descendants() {
			require.NotContains(t, []string{"script", "img", "link", "iframe"}, n.Data, file)
			for _, a := range n.Attr {
				switch a.Key {
				case "id":
					require.NotEqual(t, "details", n.Data, "a link does not open it")
					require.False(t, ids[a.Val], "%s: two elements have the id %s", file, a.Val)
					ids[a.Val] = true
				case "href":
					links = append(links, a.Val)
				}
			}
		}
		require.True(t, ids["first-steps"], file)
		for _, l := range links {
			require.True(t, l == "openapi.yaml" || ids[strings.TrimPrefix(l, "#")], "%s: %s has no target", file, l)
		}
		require.Equal(t, strings.Count(string(document), "operationId:")-strings.Count(string(document), "\n    head:"), strings.Count(w.Body.String(), "<h4>Responses</h4>"), file)
	}
}

// A shell splits each example into a request of its operation, whose body is JSON or a file.
func TestExamplesAreRequests(t *testing.T) {
	for _, file := range []string{"../../hub/openapi.yaml", "../../runtime/openapi.yaml"} {
		document, err := os.ReadFile(file)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		require.NoError(t, apidocs.New(document).ServePage(w, httptest.NewRequest(http.MethodGet, "/docs", nil)))
		root, err := html.Parse(strings.NewReader(w.Body.String()))
		require.NoError(t, err)
		var script, want []string
		for n := range root.Descendants() {
			switch {
			case n.Data == "summary" && n.FirstChild.Data == "b" && n.FirstChild.NextSibling != nil:
				path := n.FirstChild.NextSibling.NextSibling.FirstChild.Data
				want = append(want, n.FirstChild.FirstChild.Data+" "+regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "X"))
			case n.Data == "h4" && n.FirstChild.Data == "Example":
				script = append(script, n.NextSibling.FirstChild.Data)
			}
		}
		require.Len(t, script, len(want), file)
		cmd := exec.CommandContext(t.Context(), "bash", "-ec", `curl() { printf '%s\0' "$@" END; }`+"\n"+strings.Join(script, "\n"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		for i, call := range strings.Split(strings.TrimSuffix(string(out), "END\x00"), "END\x00") {
			requireRequest(t, strings.Split(strings.TrimSuffix(call, "\x00"), "\x00"), want[i])
		}
	}
}

// requireRequest requires that the arguments of curl are a request with a method and a path, in
// which X is any name.
func requireRequest(t *testing.T, args []string, want string) {
	t.Helper()
	method := http.MethodGet
	for len(args) > 1 {
		switch args[0] {
		case "-N":
			args = args[1:]
			continue
		case "-X":
			method = args[1]
		case "-H":
			require.Contains(t, args[1], ":")
		case "-d":
			require.True(t, json.Valid([]byte(args[1])), "%s: %s", want, args[1])
			fallthrough
		case "-F", "--data-binary":
			if method == http.MethodGet {
				method = http.MethodPost
			}
		default:
			require.Fail(t, "unknown option", "%s: %s", want, args[0])
		}
		args = args[2:]
	}
	address, err := url.Parse(args[0])
	require.NoError(t, err)
	wantMethod, wantPath, _ := strings.Cut(want, " ")
	require.Equal(t, wantMethod, method, want)
	require.Regexp(t, "^"+strings.ReplaceAll(regexp.QuoteMeta(wantPath), "X", "[^/]*")+"$", address.Path)
}

func TestInvalidDocuments(t *testing.T) {
	for _, document := range []string{"", "a: [", "openapi: 2.0", "[]"} {
		w := httptest.NewRecorder()
		err := apidocs.New([]byte(document)).ServePage(w, httptest.NewRequest(http.MethodGet, "/docs", nil))
		require.ErrorContains(t, err, "OpenAPI document", document)
		require.Empty(t, w.Body.String())
	}

	require.ErrorContains(t, apidocs.New([]byte("a: [")).ServeJSON(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/openapi.json", nil)),
		"OpenAPI document")
}

// Generators of clients read the documents as they are: they do not know merge keys, need the type
// of each enum and constant and a name for its empty value, and read "off" as YAML 1.1 does. They
// make types of components, and of operations with a suffix, in one name space.
func TestGeneratorsReadBothDocuments(t *testing.T) {
	for _, file := range []string{"../../hub/openapi.yaml", "../../runtime/openapi.yaml"} {
		document, err := os.ReadFile(file)
		require.NoError(t, err)
		var root yaml.Node
		require.NoError(t, yaml.Unmarshal(document, &root))
		enums, defaults, types := 0, 0, map[string]string{}
		declare := func(name, as string) {
			key := strings.ToLower(strings.ReplaceAll(name, ".", ""))
			require.Empty(t, types[key], "%s: %s is the type of two things, one is %s", file, name, as)
			types[key] = as
		}
		requireTyped := func(values map[string]*yaml.Node, hidden bool) {
			enum := values["enum"]
			for _, key := range []string{"enum", "const"} {
				if n := values[key]; n != nil && (key == "enum") == (n.Kind == yaml.SequenceNode) && !hidden {
					require.NotNil(t, values["type"], "%s:%d has no type", file, n.Line)
				}
			}
			if enum == nil || enum.Kind != yaml.SequenceNode {
				return
			}
			enums++
			for _, value := range enum.Content {
				require.False(t, value.Value == "" && values["x-enum-varnames"] == nil, "%s:%d has no name", file, enum.Line)
			}
		}
		var walk func(n *yaml.Node, hidden bool)
		walk = func(n *yaml.Node, hidden bool) {
			require.False(t, n.Kind == yaml.ScalarNode && n.Style == 0 && booleanOfYAML11.MatchString(n.Value), "%s:%d is a boolean in YAML 1.1", file, n.Line)
			if n.Kind != yaml.MappingNode {
				for _, child := range n.Content {
					walk(child, hidden)
				}
				return
			}
			values := map[string]*yaml.Node{}
			for i := 0; i < len(n.Content); i += 2 {
				key, value := n.Content[i], n.Content[i+1]
				require.NotEqual(t, "!!merge", key.Tag, "%s:%d", file, n.Line)
				values[key.Value] = value
				walk(key, hidden)
				walk(value, hidden || key.Value == "not") // a condition only
			}
			requireTyped(values, hidden)
			if values["default"] != nil && values["type"] != nil {
				defaults++
			}
			if id := values["operationId"]; id != nil {
				declare(id.Value+"Response", "an operation")
			}
		}
		walk(&root, false)
		require.Greater(t, enums, 25)
		var named struct {
			Components map[string]map[string]yaml.Node
		}
		require.NoError(t, yaml.Unmarshal(document, &named))
		delete(named.Components, "securitySchemes")
		defaults = 0
		for name, schema := range named.Components["schemas"] {
			declare(name, "a schema")
			walk(&schema, false)
		}
		require.Zero(t, defaults, "%s: a field with a default is a required one of clients", file)
		delete(named.Components, "schemas")
		for section, components := range named.Components {
			for name := range components {
				declare(name, section)
			}
		}
	}
}

// booleanOfYAML11 matches plain texts that are booleans in YAML 1.1 only.
var booleanOfYAML11 = regexp.MustCompile(`(?i)^(on|off|yes|no|y|n)$`)
