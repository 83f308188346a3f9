package drivers

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// sentTraceEnv names the variables of traces that containers have as the hub has them.
const sentTraceEnv = "OTEL_EXPORTER_OTLP_TIMEOUT OTEL_TRACES_SAMPLER OTEL_TRACES_SAMPLER_ARG OTEL_RESOURCE_ATTRIBUTES " +
	"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// containerTraces is what runtimes need to export traces to the receiver of the hub.
type containerTraces struct {
	env      []string
	secrets  map[string]agent.Secret
	receiver string // host:port
}

// containerTracesOf returns nothing if the hub exports no traces, or to an address of its own
// machine, which a container does not reach.
func containerTracesOf(s *hubcmd.Settings, log *slog.Logger) containerTraces {
	text, err := s.Endpoint()
	if err != nil || !s.Traces() {
		return containerTraces{} // Check reports the error
	}

	u, err := url.Parse(text)
	if err != nil {
		return containerTraces{}
	}

	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); host == "localhost" || err == nil && addr.IsLoopback() {
		log.Warn("agents export no traces: a container does not reach the loopback address of the receiver", "url", text)
		return containerTraces{}
	}

	var t containerTraces
	t.receiver = net.JoinHostPort(host, cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]))
	t.secrets = s.TraceSecrets()
	t.env = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + text}
	for name := range strings.FieldsSeq(sentTraceEnv) {
		if value := s.Getenv(name); value != "" {
			t.env = append(t.env, name+"="+value)
		}
	}

	return t
}
