package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

type thing struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
}

func (t thing) CurrentVersion() int64 { return t.Version }

func TestHandlersOfResults(t *testing.T) {
	t.Parallel()
	find := func(r *http.Request) (thing, error) {
		if r.PathValue("name") == "none" {
			return thing{}, wire.NotFound
		}
		if r.PathValue("name") == "builtin" {
			return thing{Name: "builtin"}, nil
		}
		return thing{r.PathValue("name"), 7}, nil
	}
	handler, err := api.New(api.Config{},
		api.Route{Method: "GET", Path: "/things/:name", Access: api.Open, Handle: api.Result(http.StatusOK, find)},
		api.Route{Method: "POST", Path: "/things/:name", Access: api.Open, Handle: api.ResultOf(http.StatusCreated, func(r *http.Request, in thing) (string, error) {
			found, err := find(r)
			return in.Name + " of " + found.Name, err
		})},
		api.Route{Method: "DELETE", Path: "/things/:name", Access: api.Open, Handle: api.Done(func(r *http.Request) error {
			_, err := find(r)
			return err
		})},
	)
	require.NoError(t, err)
	for _, row := range []struct {
		method, name, body string
		status             int
		want, tag          string
	}{
		{"GET", "a", "", http.StatusOK, `{"name":"a","version":7}`, `"7"`},
		{"GET", "builtin", "", http.StatusOK, `{"name":"builtin","version":0}`, ""},
		{"GET", "none", "", http.StatusNotFound, `"code":"not_found"`, ""},
		{"POST", "a", `{"name":"b"}`, http.StatusCreated, `"b of a"`, ""},
		{"POST", "none", `{"name":"b"}`, http.StatusNotFound, `"code":"not_found"`, ""},
		{"POST", "a", `{`, http.StatusBadRequest, `"code":"invalid_request"`, ""},
		{"DELETE", "a", "", http.StatusNoContent, "", ""},
		{"DELETE", "none", "", http.StatusNotFound, `"code":"not_found"`, ""},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(row.method, "/things/"+row.name, strings.NewReader(row.body)))
		require.Equal(t, row.status, w.Code, row)
		require.Contains(t, w.Body.String(), row.want, row)
		require.Equal(t, row.tag, w.Header().Get("ETag"), row)
	}
}
