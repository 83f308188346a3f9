package httpapi_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/julienschmidt/httprouter"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// api is a small API in the shell: one route for each way in which a handler can end.
func api(log io.Writer) http.Handler {
	shell := &httpapi.Shell{
		Logger: slog.New(slog.NewTextHandler(log, nil)),
		Quiet:  func(path string) bool { return path == "/quiet" },
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			status := http.StatusInternalServerError
			switch {
			case errors.Is(err, httpapi.ErrNotFound):
				status = http.StatusNotFound
			case errors.Is(err, httpapi.ErrPanic):
				err = httpapi.ErrPanic
			case errors.Is(err, httpapi.ErrMethodNotAllowed):
				status = http.StatusMethodNotAllowed
			}
			_ = httpapi.WriteJSON(w, status, map[string]string{"error": err.Error(), "id": httpapi.RequestID(w)})
		},
	}
	router := shell.Router()
	route := func(path string, h httpapi.Handler) { router.GET(path, shell.Handle(h)) }
	route("/ok", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
		return httpapi.WriteJSON(w, http.StatusCreated, "ok")
	})
	router.POST("/read", shell.Handle(func(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
		return httpapi.ReadJSON(w, r, 1000, new(any))
	}))
	route("/large", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
		return httpapi.WriteJSON(w, http.StatusOK, strings.Repeat("x", 1<<20))
	})
	route("/quiet", func(http.ResponseWriter, *http.Request, httprouter.Params) error { return nil })
	route("/error", func(http.ResponseWriter, *http.Request, httprouter.Params) error { return errors.New("no") })
	route("/unencodable", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
		return httpapi.WriteJSON(w, http.StatusOK, make(chan int))
	})
	route("/panic", func(http.ResponseWriter, *http.Request, httprouter.Params) error { panic("oh") })
	route("/panic/late", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
		_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
		panic("oh")
	})
	route("/secret", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
		if httpapi.Began(w) {
			return errors.New("too early")
		}
		httpapi.LogAs(w, "/hidden")
		_, err := io.WriteString(w, "x")
		if !httpapi.Began(w) {
			panic("too late")
		}
		return err
	})
	route("/abort", func(http.ResponseWriter, *http.Request, httprouter.Params) error { panic(http.ErrAbortHandler) })
	route("/file", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
		from, ok := w.(io.ReaderFrom)
		if !ok {
			return errors.New("sendfile is out of reach")
		}
		f, err := os.Open("httpapi_test.go")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = from.ReadFrom(f)
		return err
	})
	route("/deadline", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) error {
		control := http.NewResponseController(w)
		return errors.Join(control.EnableFullDuplex(), control.Flush())
	})
	return shell.Wrap(router)
}

func TestShell(t *testing.T) {
	for path, row := range map[string]struct {
		status int
		body   string
		logged []string
	}{
		"/ok":          {201, "\"ok\"\n", []string{"status=201", "bytes=5", "path=/ok"}},
		"/error":       {500, "{\"error\":\"no\",\"id\":\"my-id\"}\n", []string{"status=500"}},
		"/unencodable": {500, "", []string{"status=500"}},
		"/nothing":     {404, "{\"error\":\"no such path\",\"id\":\"my-id\"}\n", []string{"status=404"}},
		"/ok/":         {404, "", []string{"status=404"}},
		"/secret":      {200, "x", []string{"status=200", "path=/hidden"}},
		"/panic":       {500, "{\"error\":\"panic\",\"id\":\"my-id\"}\n", []string{"panic=oh", "httpapi_test.go", "status=500"}},
		"/file":        {200, "", []string{"status=200"}},
		"/deadline":    {200, "", []string{"status=200"}},
	} {
		t.Run(path, func(t *testing.T) {
			var log bytes.Buffer
			server := httptest.NewServer(api(&log))
			defer server.Close()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
			require.NoError(t, err)
			req.Header.Set("X-Request-ID", "my-id")
			res, err := server.Client().Do(req)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, row.status, res.StatusCode, "%s", body)
			require.Equal(t, "my-id", res.Header.Get("X-Request-ID"))
			if row.body != "" {
				require.Equal(t, row.body, string(body))
			}
			server.Close() // the line is written after the response
			for _, part := range append(row.logged, "request_id=my-id") {
				require.Contains(t, log.String(), part)
			}
		})
	}
}

func TestIncompleteResponseIsNotWellFormed(t *testing.T) {
	for _, path := range []string{"/panic/late", "/abort"} {
		var log bytes.Buffer
		server := httptest.NewServer(api(&log))
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		res, err := server.Client().Get(server.URL + path)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		require.Error(t, err, path)
		server.Close()
		require.Contains(t, log.String(), "path="+path)
	}
}

func TestQuietPathsAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	api(&log).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/quiet", nil))
	require.Empty(t, log.String())
}

func TestReadJSON(t *testing.T) {
	type small struct {
		N    int               `json:"n"`
		F    float64           `json:"f"`
		Name string            `json:"name"`
		On   bool              `json:"on"`
		List []string          `json:"list"`
		In   map[string]string `json:"in"`
	}
	for in, want := range map[string]string{
		`{"n":1,"more":{}}`: "",
		`null`:              "",
		`{"n":"1"}`:         "n must be an integer, not string",
		`{"f":"1"}`:         "f must be a number, not string",
		`{"name":[]}`:       "name must be a string, not array",
		`{"on":1}`:          "on must be true or false, not number",
		`{"list":{}}`:       "list must be an array, not object",
		`{"in":[]}`:         "in must be an object, not array",
		`"x"`:               "the body must be an object, not string",
		`{`:                 "the body is not JSON: unexpected end of JSON input at byte 1",
		``:                  "the body is empty",
		"\xff":              "the body is not UTF-8",
	} {
		err := httpapi.ReadJSON(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(in)), 100, new(small))
		if want == "" {
			require.NoError(t, err, in)
			continue
		}
		var body *httpapi.BodyError
		require.ErrorAs(t, err, &body, in)
		require.Equal(t, want, body.Message, in)
	}
	var wrongType *httpapi.BodyError
	require.ErrorAs(t, httpapi.ParseJSON([]byte(`{"in":{"a":1}}`), new(small)), &wrongType)
	require.Equal(t, "in.a", wrongType.Field)
	long := `{"name":"` + strings.Repeat("x", 100) + `"}`
	err := httpapi.ReadJSON(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(long)), 100, new(small))
	require.ErrorIs(t, err, httpapi.ErrTooLarge)

	var many []struct{ List []string }
	text := "[" + strings.Repeat("{},", 1<<18) + "{}]"
	require.ErrorContains(t, httpapi.ParseJSON([]byte(text), &many), "the body has more than 262144 values")
	require.Empty(t, many)
}
