package kubernetes_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/otlptest"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// One trace leads from the client through the hub and the pod to the upstream. The pod serves
// metrics on a port of its own if the hub does.
func TestTraceAndMetricsOfAPod(t *testing.T) {
	p := newPlace(t)
	receiver := otlptest.Start(t, listen(t))
	up := modeltest.New(modeltest.OpenAI, modeltest.Stream(modeltest.Text("planted answer"), modeltest.Stop("stop")))
	server := &httptest.Server{Listener: listen(t), Config: &http.Server{Handler: up, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)

	h := &hub{t: t, place: p, data: t.TempDir()}
	h.start("kubernetes", "OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.URL, "OTEL_EXPORTER_OTLP_HEADERS="+receiver.Headers, "HUB_METRICS_ADDR=127.0.0.1:0")
	defer func() { h.stop(syscall.SIGTERM) }()
	provider, _ := h.call("POST", "/api/v1/admin/providers", `{"name":"up","protocol":"openai","baseUrl":"`+server.URL+`/v1","apiKey":"k"}`)["id"].(string)
	h.call("POST", agentPath, `{"name": "helper", "providerId": "`+provider+`", "model": "m"}`)
	h.call("POST", agentPath+"/helper/deploy", "")
	h.reach(`"state":"running"`)
	session, _ := h.call("POST", "/api/v1/agents/helper/chat/sessions", "{}")["id"].(string)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/api/v1/agents/helper/chat/sessions/"+session+"/messages",
		strings.NewReader(`{"message":"planted question"}`))
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + h.token}, "Content-Type": {"application/json"}, "Traceparent": {otlptest.Traceparent}}
	text := read(t, req)
	require.Contains(t, text, "planted answer")
	require.Equal(t, receiver.AwaitChat(t, "helper", "m"), up.Requests()[0].Header.Get("Traceparent"))

	req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.pods(key, "")[0].Status.PodIP+":9464/metrics", http.NoBody)
	require.NoError(t, err)
	require.Contains(t, read(t, req), `agenthost_runs_total{agent="helper"`)
	h.call("DELETE", agentPath+"/helper/deploy", "")
	p.nothingLeft()
}

// read returns the body of a response.
func read(t *testing.T, req *http.Request) string {
	t.Helper()
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", text)
	return string(text)
}
