package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// library is a server with resources.
func library() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "library", Version: "1"}, &sdk.ServerOptions{PageSize: 2})
	contents := map[string][]*sdk.ResourceContents{
		"book://text":   {{MIMEType: "text/plain", Text: "Call me Ishmael."}},
		"book://base64": {{MIMEType: "application/json; charset=utf-8", Blob: []byte(`{"a":1}`)}},
		"book://image":  {{MIMEType: "image/png", Blob: []byte("\x89PNG")}},
		"book://binary": {{MIMEType: "application/octet-stream", Blob: []byte{0, 1, 2}}},
		"book://claims": {{MIMEType: "text/plain", Blob: []byte{0xff, 0xfe}}},
		"book://two":    {{MIMEType: "text/plain", Text: "one"}, {MIMEType: "text/plain", Text: "two"}},
		"book://none":   {},
	}
	read := func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		found, ok := contents[req.Params.URI]
		if strings.HasPrefix(req.Params.URI, "page://") {
			found, ok = []*sdk.ResourceContents{{URI: req.Params.URI, Text: strings.Repeat("p", 1<<20)}}, true
		}
		if !ok {
			return nil, sdk.ResourceNotFoundError(req.Params.URI)
		}
		return &sdk.ReadResourceResult{Contents: found}, nil
	}
	for uri, parts := range contents {
		for _, part := range parts {
			part.URI = uri
		}
		server.AddResource(&sdk.Resource{URI: uri, Name: "n", Description: "<about>", MIMEType: "text/plain"}, read)
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "page://{n}", Name: "Page"}, read)
	return server
}

func TestResources(t *testing.T) {
	newest := streamableAs(library(), &sdk.StreamableHTTPOptions{Stateless: true})
	for name, handler := range map[string]http.Handler{
		"http": streamable(library()),
		"the newest protocol": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Protocol-Version") < "2026" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			newest.ServeHTTP(w, r)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			found, err := newWorld(t).open(overHTTP(web(t, handler).URL)).Tools(t.Context())
			require.NoError(t, err)
			require.Empty(t, found.Tools, "the server has no tools")
			list, err := found.Resources(t.Context(), tool.Call{}, "")
			require.NoError(t, err)
			require.Equal(t, strings.Join([]string{
				`{"server":"test","uri":"book://base64","name":"n","description":"<about>","mimeType":"text/plain"}`,
				`{"server":"test","uri":"book://binary","name":"n","description":"<about>","mimeType":"text/plain"}`,
				`{"server":"test","uri":"book://claims","name":"n","description":"<about>","mimeType":"text/plain"}`,
				`{"server":"test","uri":"book://image","name":"n","description":"<about>","mimeType":"text/plain"}`,
				`{"server":"test","uri":"book://none","name":"n","description":"<about>","mimeType":"text/plain"}`,
				`{"server":"test","uri":"book://text","name":"n","description":"<about>","mimeType":"text/plain"}`,
				`{"server":"test","uri":"book://two","name":"n","description":"<about>","mimeType":"text/plain"}`,
				`{"server":"test","uriTemplate":"page://{n}","name":"Page"}`,
			}, "\n"), list.Output)
			for uri, want := range map[string]tool.Result{
				"book://text":   {Output: "Call me Ishmael."},
				"book://base64": {Output: `{"a":1}`},
				"book://image":  {Output: "[resource book://image image/png, 4 bytes]", Images: []tool.Image{{MediaType: "image/png", Data: []byte("\x89PNG")}}},
				"book://binary": {Output: "[resource book://binary application/octet-stream, 3 bytes]"},
				"book://claims": {Output: "[resource book://claims text/plain, 2 bytes]"},
				"book://two":    {Output: "[resource book://two text/plain]\none\n[resource book://two text/plain]\ntwo"},
				"book://none":   {},
				"book://other":  {Output: "mcp server test: the call failed: Resource not found", IsError: true},
			} {
				got, err := found.Resources(t.Context(), tool.Call{}, uri)
				require.NoError(t, err)
				require.Equal(t, want, got, uri)
			}
			_, err = found.Resources(t.Context(), tool.Call{}, strings.Repeat("u", 9<<10))
			require.EqualError(t, err, "the uri is longer than 8192 bytes")
		})
	}
}

// The client does not keep what it has read.
func TestResourcesAreNotKept(t *testing.T) {
	handler := streamableAs(library(), &sdk.StreamableHTTPOptions{Stateless: true})
	found, err := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") < "2026" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})).URL)).Tools(t.Context())
	require.NoError(t, err)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range 16 {
		got, err := found.Resources(t.Context(), tool.Call{}, fmt.Sprintf("page://%d", i))
		require.NoError(t, err)
		require.Len(t, got.Output, 1<<20)
	}
	require.Less(t, heap()-before, int64(8<<20))
}

func TestServersWithoutResources(t *testing.T) {
	found, err := newWorld(t).open(overHTTP(web(t, streamable(toolServer())).URL)).Tools(t.Context())
	require.NoError(t, err)
	require.Nil(t, found.Resources)
}

// Lists and contents of resources are bounded, whatever the server sends.
func TestHostileResources(t *testing.T) {
	many := func(count int, entry string) string {
		return strings.TrimSuffix(strings.Repeat(entry+",", count), ",")
	}
	const left = "The MCP server test lists more resources; the rest is left out."
	for name, row := range map[string]struct {
		results map[string]string
		uri     string
		want    string
	}{
		"none":                 {map[string]string{"resources/list": `{}`}, "", "The MCP server test lists no resources."},
		"nulls":                {map[string]string{"resources/list": `{"resources":[null]}`}, "", "The MCP server test lists no resources."},
		"a list without end":   {map[string]string{"resources/list": `{"resources":[],"nextCursor":"x"}`}, "", left},
		"many":                 {map[string]string{"resources/list": `{"resources":[` + many(2000, `{"uri":"a"}`) + `]}`}, "", left},
		"large":                {map[string]string{"resources/list": `{"resources":[` + many(200, `{"uri":"a","description":"`+strings.Repeat("d", 9000)+`"}`) + `]}`}, "", left},
		"a large uri":          {map[string]string{"resources/list": `{"resources":[{"uri":"` + strings.Repeat("u", 9000) + `"}]}`}, "", left},
		"not a list":           {map[string]string{"resources/list": `{"resources":7}`}, "", "the call failed"},
		"many contents":        {map[string]string{"resources/read": `{"contents":[` + many(2000, `{"uri":"a","text":"t"}`) + `]}`}, "a", "the resource has more than 1000 contents"},
		"null contents":        {map[string]string{"resources/read": `{"contents":[null,null]}`}, "a", ""},
		"invalid base64":       {map[string]string{"resources/read": `{"contents":[{"uri":"a","blob":"?"}]}`}, "a", "the call failed"},
		"a question":           {map[string]string{"resources/read": `{"contents":[],"resultType":"input_required","inputRequests":{}}`}, "a", "the server asks for input"},
		"a result that is odd": {map[string]string{"resources/read": `{"contents":{},"inputRequests":{"a":null}}`}, "a", "mcp server test: "},
	} {
		t.Run(name, func(t *testing.T) {
			def := overHTTP(web(t, rawHandlerWith(`{"resources":{}}`, func(method string, _ json.RawMessage) string {
				if result := row.results[method]; result != "" {
					return result
				}
				return `{}`
			})).URL)
			found, err := newWorld(t).open(def).Tools(t.Context())
			require.NoError(t, err)
			got, err := found.Resources(t.Context(), tool.Call{}, row.uri)
			require.NoError(t, err)
			require.Contains(t, got.Output, row.want)
			require.Equal(t, row.want == "", got.Output == "", got.Output)
			require.Less(t, len(got.Output), 66<<10)
		})
	}
}
