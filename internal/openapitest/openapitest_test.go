package openapitest_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/openapitest"
)

const (
	id   = "0198c0de-0000-7000-8000-000000000000"
	note = `{"id":"` + id + `"}`
)

func load(t *testing.T) *openapitest.Document {
	t.Helper()
	doc, err := openapitest.Load(openapitest.Config{
		File: "testdata/openapi.yaml", Streams: []string{"application/x-lines"}, Headers: map[string]string{"Cache-Control": "no-store"},
		Plain: []string{"X-Plain"},
	})
	require.NoError(t, err)
	return doc
}

// exchange returns a request and a response with the common header, and more headers as names and
// values.
func exchange(method, target, body string, status int, media, answer string, headers ...string) openapitest.Exchange {
	h := http.Header{"Cache-Control": {"no-store"}, "Date": {"today"}}
	if media != "" {
		h.Set("Content-Type", media)
	}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return openapitest.Exchange{Method: method, Target: target, Body: body, Status: status, Header: h, Answer: answer}
}

func TestCheck(t *testing.T) {
	const json = "application/json"
	long := "/notes/" + id + "0"
	unforeseen := exchange("GET", "/notes/1", "", 400, json, `{"error":"x"}`)
	unforeseen.Unforeseen = true
	for name, row := range map[string]struct {
		x    openapitest.Exchange
		want string // in the fault; "" if there is none
	}{
		"an answer":              {exchange("GET", "/notes/1", "", 200, json, note), ""},
		"a documented header":    {exchange("GET", "/notes/1", "", 200, json, note, "ETag", "x"), ""},
		"a plain header":         {exchange("GET", "/notes/1", "", 200, json, note, "X-Plain", "x"), ""},
		"another header":         {exchange("GET", "/notes/1", "", 200, json, note, "X-More", "x"), "undocumented header X-More"},
		"a header that all have": {exchange("GET", "/notes/1", "", 200, json, note, "Cache-Control", "private"), `header Cache-Control is ["private"]`},
		"another field":          {exchange("GET", "/notes/1", "", 200, json, `{"id":"`+id+`","more":1}`), `"more"`},
		"no such field":          {exchange("GET", "/notes/1", "", 200, json, `{}`), "missing property 'id'"},
		"an id in upper case":    {exchange("GET", "/notes/1", "", 200, json, `{"id":"0198C0DE-0000-7000-8000-000000000000"}`), "uuid"},
		"another media type":     {exchange("GET", "/notes/1", "", 200, "text/plain", note), "text/plain"},
		"another status":         {exchange("GET", "/notes/1", "", 404, json, `{"error":"x"}`), "status"},
		"not modified":           {exchange("GET", "/notes/1", "", 304, "", ""), ""},
		"not modified, unknown":  {exchange("GET", "/lines", "", 304, "", ""), "the status is not documented"},
		"a stream":               {exchange("GET", "/lines", "", 200, "application/x-lines", "{}\n{}\n"), ""},
		"another path":           {exchange("GET", "/note", "", 200, json, note), "find the operation of GET /note"},
		"another method":         {exchange("POST", "/notes/1", "", 200, json, note), "find the operation of POST /notes/1"},
		"HEAD":                   {exchange("HEAD", "/notes/1", "", 200, json, ""), ""},
		"HEAD with a body":       {exchange("HEAD", "/notes/1", "", 200, json, note), "has a body"},
		"HEAD, another status":   {exchange("HEAD", "/notes/1", "", 404, json, ""), "the status is not documented"},
		"accepted":               {exchange("PUT", "/notes/1", `{"text":"x","later":1}`, 204, "", ""), ""},
		"accepted by mistake":    {exchange("PUT", "/notes/1", `{"text":1}`, 204, "", ""), "does not permit an accepted request"},
		"refused":                {exchange("PUT", "/notes/1", `{}`, 400, json, `{"error":"x"}`), ""},
		"refused by the path":    {exchange("GET", long, "", 400, json, `{"error":"x"}`), ""},
		"refused by mistake":     {exchange("GET", "/notes/1", "", 400, json, `{"error":"x"}`), "permits a rejected request"},
		"unforeseen":             {unforeseen, ""},
		"a target that is none":  {exchange("GET", "%zz", "", 200, json, note), "invalid URL escape"},
	} {
		t.Run(name, func(t *testing.T) {
			route, err := load(t).Check(row.x)
			if row.want != "" {
				require.ErrorContains(t, err, row.want)
				return
			}
			require.NoError(t, err)
			require.NotNil(t, route.Operation)
			require.Contains(t, []string{"/notes/{id}", "/lines"}, route.Path)
		})
	}
}

func TestCheckOutside(t *testing.T) {
	doc := load(t)
	fault := func(answer string) openapitest.Exchange {
		return exchange("GET", "/nowhere", "", 404, "application/json", answer)
	}
	require.NoError(t, doc.CheckOutside("Fault", fault(`{"error":"x"}`)))
	require.ErrorContains(t, doc.CheckOutside("Fault", fault(`{"error":"x","code":"x"}`)), `"code"`)
	require.ErrorContains(t, doc.CheckOutside("Other", fault(`{"error":"x"}`)), "has no response Other")
}

func TestSchemas(t *testing.T) {
	doc := load(t)
	require.NotNil(t, doc.Schema("Note"))
	require.Same(t, doc.Schema("Note"), doc.Schema("#/components/schemas/Note"))
	require.Nil(t, doc.Schema("Other"))
	require.NoError(t, doc.Fits("Note", map[string]any{"id": id}))
	require.Error(t, doc.Fits("Note", map[string]any{"id": id, "more": 1.0}))
	require.ErrorContains(t, doc.Fits("Other", nil), "has no schema Other")
}

func TestAll(t *testing.T) {
	require.Equal(t, []string{"GET /lines", "GET /notes/{id}", "HEAD /notes/{id}", "PUT /notes/{id}"}, slices.Sorted(maps.Keys(load(t).All())))
}

func TestLoadRejectsInvalidDocuments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "openapi.yaml")
	_, err := openapitest.Load(openapitest.Config{File: path})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("openapi: 3.1.0\npaths: {}\n"), 0o600))
	_, err = openapitest.Load(openapitest.Config{File: path})
	require.ErrorContains(t, err, "validate the document")
	require.NoError(t, os.WriteFile(path, []byte("openapi: 3.1.0\npaths: {}\nx-a: &a 1\nx-b:\n  - &a 2\n"), 0o600))
	_, err = openapitest.Load(openapitest.Config{File: path})
	require.ErrorContains(t, err, "the anchor a is not unique")
}
