package apidocs_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
					require.False(t, ids[a.Val], "%s: two elements have the id %s", file, a.Val)
					ids[a.Val] = true
				case "href":
					links = append(links, a.Val)
				}
			}
		}
		for _, l := range links {
			require.True(t, l == "openapi.yaml" || ids[strings.TrimPrefix(l, "#")], "%s: %s has no target", file, l)
		}
		require.Equal(t, strings.Count(string(document), "operationId:")-strings.Count(string(document), "\n    head:"), strings.Count(w.Body.String(), "<h4>Responses</h4>"), file)
	}
}

func TestInvalidDocuments(t *testing.T) {
	for _, document := range []string{"", "a: [", "openapi: 2.0", "[]"} {
		w := httptest.NewRecorder()
		err := apidocs.New([]byte(document)).ServePage(w, httptest.NewRequest(http.MethodGet, "/docs", nil))
		require.ErrorContains(t, err, "OpenAPI document", document)
		require.Empty(t, w.Body.String())
	}
}
