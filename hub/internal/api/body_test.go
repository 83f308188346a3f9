package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
)

type input struct {
	Name  string     `json:"name"`
	Count int        `json:"count"`
	Small int8       `json:"small"`
	Tags  []string   `json:"tags"`
	At    *time.Time `json:"at"`
	Owner struct {
		ID string `json:"id"`
	} `json:"owner"`
}

// reading has one route for each way of reading a body.
func reading(t testing.TB) http.Handler {
	echo := func(v input, err error, w http.ResponseWriter) error {
		if err != nil {
			return err
		}
		return api.Encode(w, http.StatusOK, v)
	}
	return handler(t, nil,
		routeWith("POST", "/must", func(w http.ResponseWriter, r *http.Request) error {
			v, err := api.Decode[input](w, r)
			return echo(v, err, w)
		}),
		routeWith("POST", "/may", func(w http.ResponseWriter, r *http.Request) error {
			v, err := api.DecodeOptional[input](w, r)
			return echo(v, err, w)
		}),
		api.Route{Method: "POST", Path: "/tiny", Access: api.Open, BodyLimit: 10, Handle: func(w http.ResponseWriter, r *http.Request) error {
			v, err := api.Decode[input](w, r)
			return echo(v, err, w)
		}},
		api.Route{Method: "POST", Path: "/raw", Access: api.Open, BodyLimit: 10, Handle: func(w http.ResponseWriter, r *http.Request) error {
			if _, err := io.ReadAll(r.Body); err != nil {
				return err
			}
			return api.NoContent(w)
		}},
		routeWith("POST", "/list", func(w http.ResponseWriter, r *http.Request) error {
			v, err := api.Decode[[]string](w, r)
			if err != nil {
				return err
			}
			return api.Encode(w, http.StatusOK, v)
		}),
	)
}

func TestDecode(t *testing.T) {
	const json = "application/json"
	for name, row := range map[string]struct {
		path, kind, body string
		status           int
		message          string // a part of it
		field            string
	}{
		"an object":               {"/must", json, `{"name":"a","count":2,"more":{}}`, 200, "", ""},
		"no declared type":        {"/must", "", `{"name":"a"}`, 200, "", ""},
		"with a charset":          {"/must", "application/json; charset=UTF-8", `{}`, 200, "", ""},
		"a kind of JSON":          {"/must", "application/merge-patch+json", `{}`, 200, "", ""},
		"white space around":      {"/must", json, " \n{}\n ", 200, "", ""},
		"a list":                  {"/list", json, `["a"]`, 200, "", ""},
		"an escaped backslash":    {"/must", json, `{"name":"\\u0000"}`, 200, "", ""},
		"nothing, where it may":   {"/may", "", "", 200, "", ""},
		"nothing of a type":       {"/may", json, "", 200, "", ""},
		"white space, it may":     {"/may", json, " \n", 200, "", ""},
		"something, where it may": {"/may", json, `{"count":2}`, 200, "", ""},

		"a form":               {"/must", "application/x-www-form-urlencoded", `name=a`, 415, "application/json", ""},
		"text":                 {"/must", "text/plain", `{}`, 415, "application/json", ""},
		"another charset":      {"/must", "application/json; charset=latin1", `{}`, 415, "UTF-8", ""},
		"a type that is none":  {"/must", "json;;;=", `{}`, 415, "application/json", ""},
		"a form, where it may": {"/may", "application/x-www-form-urlencoded", `name=a`, 415, "application/json", ""},

		"nothing":                 {"/must", json, "", 400, "the body is empty", ""},
		"white space":             {"/must", json, "  ", 400, "the body is not JSON: unexpected end of JSON input", ""},
		"null":                    {"/must", json, "null", 400, "the body must be an object, not null", ""},
		"null, where it may":      {"/may", json, "null", 400, "the body must be an object, not null", ""},
		"an array":                {"/must", json, "[]", 400, "the body must be an object, not array", ""},
		"a string":                {"/must", json, `"{}"`, 400, "the body must be an object, not string", ""},
		"half of it":              {"/must", json, `{"name":"a"`, 400, "unexpected end of JSON input", ""},
		"more after it":           {"/must", json, `{}{}`, 400, "after top-level value", ""},
		"a comma too many":        {"/must", json, `{"name":"a",}`, 400, "the body is not JSON", ""},
		"no UTF-8":                {"/must", json, "{\"name\":\"\xff\"}", 400, "the body is not UTF-8", ""},
		"a NUL":                   {"/must", json, `{"name":"a\u0000"}`, 400, "U+0000", ""},
		"a NUL after a backslash": {"/must", json, `{"name":"\\\u0000"}`, 400, "U+0000", ""},
		"a raw NUL":               {"/must", json, "{\"name\":\"\x00\"}", 400, "the body is not JSON", ""},
		"a number for a string":   {"/must", json, `{"name":1}`, 400, "name must be a string, not number", "name"},
		"a string for a number":   {"/must", json, `{"count":"2"}`, 400, "count must be an integer, not string", "count"},
		"a fraction":              {"/must", json, `{"count":2.5}`, 400, "count must be an integer, not number 2.5", "count"},
		"more than fits":          {"/must", json, `{"small":200}`, 400, "small must be an integer, not number 200", "small"},
		"far below":               {"/must", json, `{"owner":{"id":{}}}`, 400, "owner.id must be a string, not object", "owner.id"},
		"a list's item":           {"/must", json, `{"tags":["a",1]}`, 400, "tags[1] must be a string, not number", "tags[1]"},
		"a time that is none":     {"/must", json, `{"at":"yesterday"}`, 400, "RFC 3339", "at"},
		"many brackets":           {"/must", json, `{"more":` + strings.Repeat("[", 100_000), 400, "the body is not JSON", ""},

		"too much":              {"/must", json, `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "at most 1048576 bytes", ""},
		"more than the route's": {"/tiny", json, `{"name":"abc"}`, 413, "at most 10 bytes", ""},
		"just the route's":      {"/tiny", json, `{"name":1}`, 400, "name must be", "name"},
		"for another reader":    {"/raw", "text/csv", "12345678901", 413, "at most 10 bytes", ""},
		"just for another":      {"/raw", "text/csv", "1234567890", 204, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, length := range []bool{true, false} {
				var headers []string
				if row.kind != "" {
					headers = []string{"Content-Type", row.kind}
				}
				h := reading(t)
				if !length && row.body != "" { // as in chunks
					inner := h
					h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						r.ContentLength = -1
						inner.ServeHTTP(w, r)
					})
				}
				w := send(h, "POST", row.path, row.body, headers...)
				require.Equal(t, row.status, w.Code, w.Body)
				if row.status < 400 {
					continue
				}
				f := faultOf(t, w)
				require.Equal(t, map[int]string{400: "invalid_request", 413: "payload_too_large", 415: "unsupported_media"}[row.status], f.Code)
				require.Contains(t, f.Message, row.message)
				if row.field == "" {
					require.Nil(t, f.Data)
					continue
				}
				said, _ := f.Data["fields"].(map[string]any)[row.field].(string)
				require.True(t, strings.HasPrefix(said, "must be "), "as all faults of fields: %s", said)
				require.Equal(t, "The request cannot be parsed: "+row.field+" "+said+".", f.Message)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	type embedded struct {
		api.List[int]
		SnapshotID string `json:"snapshotId"`
	}
	for name, row := range map[string]struct {
		encode func(http.ResponseWriter) error
		want   string
	}{
		"a list":             {encoding(api.List[int]{Items: []int{1, 2}, Total: 7}), `{"items":[1,2],"total":7}`},
		"of nothing":         {encoding(api.List[int]{}), `{"items":[],"total":0}`},
		"of nothing, of ten": {encoding(api.List[string]{Total: 10}), `{"items":[],"total":10}`},
		"embedded":           {encoding(embedded{api.List[int]{Items: []int{}}, "0"}), `{"items":[],"total":0,"snapshotId":"0"}`},
		"a string":           {encoding("x"), `"x"`},
		"markup":             {encoding("<&>"), `"<&>"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := send(handler(t, nil, routeWith("GET", "/", func(w http.ResponseWriter, _ *http.Request) error {
				return row.encode(w)
			})), "GET", "/", "")
			require.Equal(t, http.StatusCreated, w.Code)
			require.Equal(t, row.want+"\n", w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		})
	}
}

// encoding returns a handler that responds with a value.
func encoding[T any](v T) func(http.ResponseWriter) error {
	return func(w http.ResponseWriter) error { return api.Encode(w, http.StatusCreated, v) }
}

func TestNoContent(t *testing.T) {
	w := send(handler(t, nil, routeWith("DELETE", "/", func(w http.ResponseWriter, _ *http.Request) error { return api.NoContent(w) })), "DELETE", "/", "")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Empty(t, w.Body.String())
	require.Empty(t, w.Header().Get("Content-Type"))
}
