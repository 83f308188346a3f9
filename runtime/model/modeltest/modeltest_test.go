package modeltest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	anthropicBody = `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	openaiBody    = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
)

func request(ctx context.Context, t testing.TB, p modeltest.Protocol, base, body string) *http.Request {
	path := "/v1/messages"
	if p == modeltest.OpenAI {
		path = "/chat/completions"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("X-Api-Key", "key-1")
	return r
}

func valid(p modeltest.Protocol) string {
	if p == modeltest.OpenAI {
		return openaiBody
	}
	return anthropicBody
}

// open sends a valid request and returns the response with its body unread.
func open(ctx context.Context, t testing.TB, up *modeltest.Upstream, p modeltest.Protocol) *http.Response {
	res, err := http.DefaultClient.Do(request(ctx, t, p, up.URL, valid(p)))
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func ask(t testing.TB, up *modeltest.Upstream, p modeltest.Protocol) string {
	body, err := io.ReadAll(open(t.Context(), t, up, p).Body)
	require.NoError(t, err)
	return string(body)
}

// readUntil reads from body until text has arrived.
func readUntil(t testing.TB, body io.Reader, text string) {
	var got bytes.Buffer
	for !strings.Contains(got.String(), text) {
		_, err := io.CopyN(&got, body, 1)
		require.NoError(t, err, "after %q", got.String())
	}
}

func TestRepliesComeInOrder(t *testing.T) {
	for _, p := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI} {
		t.Run(string(p), func(t *testing.T) {
			up := modeltest.Start(t, p,
				modeltest.Stream(modeltest.Text("one")),
				modeltest.Status(http.StatusTooManyRequests, "Retry-After", "7"),
				modeltest.Raw(http.StatusBadGateway, "text/html", "<h1>Bad gateway</h1>"),
				modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
					return modeltest.Burst(modeltest.Text(r.Header.Get("X-Api-Key")))
				}),
				modeltest.Repeat(modeltest.Stream(modeltest.Text("rest"))),
			)
			require.Contains(t, ask(t, up, p), `"one"`)

			res := open(t.Context(), t, up, p)
			require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
			require.Equal(t, "7", res.Header.Get("Retry-After"))
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))

			res = open(t.Context(), t, up, p)
			require.Equal(t, http.StatusBadGateway, res.StatusCode)
			require.Equal(t, "text/html", res.Header.Get("Content-Type"))

			require.Contains(t, ask(t, up, p), `"key-1"`)
			require.Contains(t, ask(t, up, p), `"rest"`)
			require.Contains(t, ask(t, up, p), `"rest"`)

			requests := up.Requests()
			require.Len(t, requests, 6)
			require.Equal(t, http.MethodPost, requests[0].Method)
			require.Equal(t, "key-1", requests[0].Header.Get("X-Api-Key"))
			require.JSONEq(t, valid(p), string(requests[0].Body))
			require.Same(t, requests[2], up.Await(t, 3))
		})
	}
}

// report is a testing.TB that records failures and does not fail.
type report struct {
	testing.TB
	failures chan string
}

func (r report) Errorf(format string, a ...any) { r.failures <- fmt.Sprintf(format, a...) }

func TestRequestThatIsNotWantedFailsTheTest(t *testing.T) {
	tb := report{t, make(chan string, 2)}
	up := modeltest.Start(tb, modeltest.Anthropic)

	res := open(t.Context(), t, up, modeltest.Anthropic)
	require.Equal(t, http.StatusInternalServerError, res.StatusCode)
	require.Equal(t, "modeltest: request 1 has no reply left", <-tb.failures)

	res, err := http.DefaultClient.Do(request(t.Context(), t, modeltest.Anthropic, up.URL, "{"))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	require.Equal(t, "modeltest: request 2 is not valid: The request body is not valid JSON", <-tb.failures)
}

func TestInvalidRequestTakesNoReply(t *testing.T) {
	up := modeltest.New(modeltest.Anthropic, modeltest.Stream(modeltest.Text("one")))
	for _, want := range []int{400, 200, 500} {
		body := anthropicBody
		if want == 400 {
			body = "{}"
		}
		w := httptest.NewRecorder()
		up.ServeHTTP(w, request(t.Context(), t, modeltest.Anthropic, "", body))
		require.Equal(t, want, w.Code)
	}
}

func TestLatestRequestsAreRecorded(t *testing.T) {
	up := modeltest.New(modeltest.OpenAI, modeltest.Repeat(modeltest.Burst(modeltest.Text("x"))))
	for range 1005 {
		up.ServeHTTP(httptest.NewRecorder(), request(t.Context(), t, modeltest.OpenAI, "/v1", openaiBody))
	}
	require.Len(t, up.Requests(), 1000)
	require.Same(t, up.Requests()[0], up.Await(t, 6))
	require.Same(t, up.Requests()[999], up.Await(t, 1005))
}

func TestUnknownProtocol(t *testing.T) {
	require.PanicsWithValue(t, "modeltest: unknown protocol gopher", func() { modeltest.New("gopher") })
}

func BenchmarkBurst(b *testing.B) {
	words := strings.SplitAfter(strings.Repeat("word ", 200), " ")
	for _, p := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI} {
		b.Run(string(p), func(b *testing.B) {
			up := modeltest.Start(b, p, modeltest.Repeat(modeltest.Burst(modeltest.Text(words...))))
			for b.Loop() {
				res, err := http.DefaultClient.Do(request(b.Context(), b, p, up.URL, valid(p)))
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, res.Body)
				require.NoError(b, err)
				res.Body.Close()
			}
		})
	}
}
