//go:build docker

package docker_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/otlptest"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// reachable returns a listener that containers reach.
func reachable(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(machine, "0"))
	require.NoError(t, err)
	return l
}

// One trace leads from the client through the hub and the container to the upstream. The engine
// does not show the key of the receiver, which the container has.
func TestTraceOfAContainer(t *testing.T) {
	t.Parallel()
	receiver := otlptest.Start(t, reachable(t))
	up := modeltest.New(modeltest.OpenAI, modeltest.Stream(modeltest.Text("planted answer"), modeltest.Stop("stop")))
	server := &httptest.Server{Listener: reachable(t), Config: &http.Server{Handler: up}} //nolint:gosec // it ends with the test
	server.Start()
	t.Cleanup(server.Close)

	h := newHub(t)
	h.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + strings.Replace(receiver.URL, "//", "//user:planted@", 1), "OTEL_EXPORTER_OTLP_HEADERS=" + receiver.Headers}
	h.start("docker")
	defer func() { h.stop(syscall.SIGTERM) }()
	provider, _ := h.call("POST", "/api/v1/admin/providers", `{"name":"up","protocol":"openai","baseUrl":"`+server.URL+`/v1","apiKey":"k"}`)["id"].(string)
	h.call("POST", agentPath, `{"name": "`+h.agent+`", "providerId": "`+provider+`", "model": "m"}`)
	h.call("POST", h.deployment(), "")
	h.reach("running", "docker")
	session, _ := h.call("POST", "/api/v1/agents/"+h.agent+"/chat/sessions", "{}")["id"].(string)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/api/v1/agents/"+h.agent+"/chat/sessions/"+session+"/messages",
		strings.NewReader(`{"message":"planted question"}`))
	require.NoError(t, err)
	req.Header = http.Header{"Authorization": {"Bearer " + h.token}, "Content-Type": {"application/json"}, "Traceparent": {otlptest.Traceparent}}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Contains(t, string(text), "planted answer")
	require.Equal(t, receiver.AwaitChat(t, h.agent, "m"), up.Requests()[0].Header.Get("Traceparent"))

	list, err := engine(t).ContainerList(t.Context(), client.ContainerListOptions{Filters: client.Filters{}.Add("label", "agenthost.key=default-"+h.agent)})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	shown, err := engine(t).ContainerInspect(t.Context(), list.Items[0].ID, client.ContainerInspectOptions{})
	require.NoError(t, err)
	require.Contains(t, string(shown.Raw), "OTEL_EXPORTER_OTLP_HEADERS_FILE")
	require.NotContains(t, string(shown.Raw), "planted")
	h.send("DELETE", h.deployment(), "")
	h.reach("not_deployed", "docker")
}
