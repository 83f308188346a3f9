// Package telemetry has the settings of the metrics and the traces of a server command. The package
// export has the exporters, which not every program links.
package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
)

// Settings are the variables of the OpenTelemetry specification that a server reads. They are
// embedded in the settings of a command.
type Settings struct {
	OTLPDisabled       bool   `env:"OTEL_SDK_DISABLED" help:"true turns traces off"`
	OTLPExporter       string `env:"OTEL_TRACES_EXPORTER" options:"otlp none" help:"otlp, or none, which turns traces off"`
	OTLPEndpoint       string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" help:"base URL to which spans are sent with OTLP over HTTP (default off)"`
	OTLPTracesEndpoint string `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" help:"URL in place of that, to which no path is added"`
	OTLPProtocol       string `env:"OTEL_EXPORTER_OTLP_PROTOCOL" options:"http/protobuf" help:"http/protobuf, and no other"`
	OTLPHeaders        string `env:"OTEL_EXPORTER_OTLP_HEADERS" secret:"file" help:"name=value,... of each export, such as a key"`
	OTLPTimeout        int    `env:"OTEL_EXPORTER_OTLP_TIMEOUT" envDefault:"10000" range:"0 3600000" help:"milliseconds of an export"`
	OTLPSampler        string `env:"OTEL_TRACES_SAMPLER" envDefault:"parentbased_always_on" help:"always_on, always_off, traceidratio, or one of them after parentbased_"`
	OTLPSamplerArg     string `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1" help:"ratio of traceidratio, from 0 to 1"`
	OTLPService        string `env:"OTEL_SERVICE_NAME" help:"name of the service (default agenthost-hub, or agenthost-runtime)"`
	OTLPResource       string `env:"OTEL_RESOURCE_ATTRIBUTES" help:"name=value,... of the service"`

	// CaptureContent adds the messages of models and the inputs and outputs of tools to the spans.
	CaptureContent bool `env:"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" help:"true adds the messages of models, and the inputs and outputs of tools, to the spans of runtimes"`
}

// Check adds the faults of the settings to their origins.
func (s *Settings) Check(o *daemon.Origins) {
	_, err := s.Ratio()
	o.Invalid(&s.OTLPSamplerArg, err)
	switch strings.TrimPrefix(s.OTLPSampler, "parentbased_") {
	case "always_on", "always_off", "traceidratio":
	default:
		o.Fault(&s.OTLPSampler, "%.40q is not supported; use always_on, always_off, traceidratio, or one of them after parentbased_", s.OTLPSampler)
	}

	_, err = Pairs(s.OTLPHeaders)
	o.Invalid(&s.OTLPHeaders, err)
	_, err = Pairs(s.OTLPResource)
	o.Invalid(&s.OTLPResource, err)
	_, err = s.Endpoint()
	if s.OTLPTracesEndpoint != "" {
		o.Invalid(&s.OTLPTracesEndpoint, err)
	} else {
		o.Invalid(&s.OTLPEndpoint, err)
	}
}

// Traces reports whether spans are exported.
func (s *Settings) Traces() bool {
	return !s.OTLPDisabled && s.OTLPExporter != "none" && (s.OTLPEndpoint != "" || s.OTLPTracesEndpoint != "")
}

// Endpoint returns the URL to which spans are sent, without a password and a query, which have no
// effect, or "". The path /v1/traces is added to the endpoint of all signals, but not to that of
// traces.
func (s *Settings) Endpoint() (string, error) {
	text := cmp.Or(s.OTLPTracesEndpoint, s.OTLPEndpoint)
	if text == "" {
		return "", nil
	}

	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("it is not an http or https URL") // which may contain a password
	}

	if s.OTLPTracesEndpoint == "" {
		u = u.JoinPath("v1", "traces")
	}

	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String(), nil
}

// Ratio returns the argument of the sampler.
func (s *Settings) Ratio() (float64, error) {
	ratio, err := strconv.ParseFloat(s.OTLPSamplerArg, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) { // also NaN
		return 0, fmt.Errorf("%.40q is not a number from 0 to 1", s.OTLPSamplerArg)
	}

	return ratio, nil
}

// Pairs reads a list such as "key=value,other=value". The specification encodes values as in a URL.
func Pairs(list string) (map[string]string, error) {
	values := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}

		key, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil {
			return nil, errors.New("it is not a list such as key=value,other=value") // values may be secret
		}

		values[key] = value
	}

	return values, nil
}
