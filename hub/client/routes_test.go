package client_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/internal/openapitest"
)

// browser are routes that only a browser, a runtime or an identity provider calls, with the reason.
var browser = map[string]string{
	"GET /":                              "a page",
	"GET /docs":                          "a page",
	"GET /api/v1/admin/settings":         "a page shows it",
	"GET /openapi.json":                  "the document that GET /openapi.yaml returns",
	"GET /auth/login":                    "a redirect of a browser",
	"GET /auth/callback":                 "a redirect of a browser",
	"GET /auth/callback/{org}":           "a redirect of a browser",
	"POST /auth/exchange":                "it needs the cookie of a browser",
	"POST /auth/backchannel-logout":      "identity providers call it",
	"GET /artifacts/tools/{hash}/{name}": "runtimes call it, as GET /artifacts/skills/{hash}/{name}",
}

// document is the transport of a client. It responds to each request with an example of the
// response in the OpenAPI document.
type document struct {
	t       *testing.T
	router  routers.Router
	route   string // of the last request
	example any    // of the last response
}

func (d *document) RoundTrip(req *http.Request) (*http.Response, error) {
	route, params, err := d.router.FindRoute(req)
	require.NoError(d.t, err, "%s %s", req.Method, req.URL)
	d.route = req.Method + " " + route.Path
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	options.ExcludeRequestBody = req.Header.Get("Content-Type") != "application/json"
	err = openapi3filter.ValidateRequest(req.Context(), &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route, Options: options})
	require.NoError(d.t, err, d.route)
	for status := 200; status < 205; status++ {
		ref := route.Operation.Responses.Status(status)
		if ref == nil {
			continue
		}
		res := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req, ContentLength: -1}
		medias := slices.Sorted(maps.Keys(ref.Value.Content))
		if len(medias) == 0 {
			return res, nil
		}
		body := "text"
		if medias[0] == "text/event-stream" {
			body = "event: done\ndata: {}\n\n"
		}
		if d.example = nil; medias[0] == "application/json" {
			d.example = example(ref.Value.Content[medias[0]].Schema.Value)
			data, err := json.Marshal(d.example)
			require.NoError(d.t, err)
			body = string(data)
		}
		res.Header.Set("Content-Type", medias[0])
		res.Body = io.NopCloser(strings.NewReader(body))
		return res, nil
	}
	d.t.Fatalf("%s has no response", d.route)
	return nil, nil
}

// example returns a value with every property of a schema.
func example(s *openapi3.Schema) any {
	for _, alternatives := range []openapi3.SchemaRefs{s.AnyOf, s.OneOf, s.AllOf} {
		if len(alternatives) > 0 && len(s.Properties) == 0 {
			last := alternatives[len(alternatives)-1].Value
			if last.Type.Is("null") {
				last = alternatives[0].Value
			}
			return example(last)
		}
	}
	switch {
	case s.Const != nil:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.Properties) > 0:
		object := map[string]any{}
		for name, property := range s.Properties {
			object[name] = example(property.Value)
		}
		return object
	case s.Type.Includes("array"):
		return []any{example(s.Items.Value)}
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		return 7.0
	case s.Type.Includes("boolean"):
		return true
	case s.Type.Includes("object"):
		if s.AdditionalProperties.Schema != nil {
			return map[string]any{"k": example(s.AdditionalProperties.Schema.Value)}
		}
		return map[string]any{"type": "text"} // which every kind of block has
	case s.Type == nil:
		return map[string]any{"k": "v"}
	case s.Format == "date-time":
		return "2026-01-02T03:04:05.123456Z"
	case s.Pattern == `^[1-9]\d*$`, s.Pattern == `^(0|[1-9]\d*)$`:
		return "7"
	case s.Pattern == "^[0-9a-f]{64}$":
		return strings.Repeat("0a", 32)
	case strings.Contains(s.Pattern, "ns|us"):
		return "1m30s"
	}
	return "x"
}

// Every route has a call of the client. Its request is valid by the OpenAPI document, and the
// client decodes every field of the response.
func TestEveryRoute(t *testing.T) {
	t.Parallel()
	doc, err := openapitest.Load(openapitest.Config{File: "../openapi.yaml", Streams: []string{"text/event-stream"}})
	require.NoError(t, err)
	router, err := legacy.NewRouter(doc.T)
	require.NoError(t, err)
	for name := range doc.All() {
		// The routes of the console are for its pages.
		if !strings.Contains(name, " /console") && browser[name] == "" {
			require.True(t, calls[name] != nil, name+": the client has no method, or browser no reason")
		}
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, doc.All(), name)
			hub := &document{t: t, router: router}
			c, err := client.New(client.Config{
				BaseURL: base, HTTPClient: &http.Client{Transport: hub},
				Credentials: client.Credentials{AccessToken: "a", RefreshToken: "r"}, OpsKey: strings.Repeat("o", 32),
			})
			require.NoError(t, err)
			got, err := call(t.Context(), c)
			require.NoError(t, err)
			require.Equal(t, name, hub.route)
			if got == nil {
				return
			}
			want := hub.example
			if object, ok := want.(map[string]any); ok && object["items"] != nil {
				want = object["items"].([]any)[0]
			}
			decoded, err := json.Marshal(got)
			require.NoError(t, err)
			expected, err := json.Marshal(want)
			require.NoError(t, err)
			require.JSONEq(t, string(expected), string(decoded))
		})
	}
}
