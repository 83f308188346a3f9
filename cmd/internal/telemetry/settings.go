package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Settings are the variables of the OpenTelemetry specification that a server reads. They are
// embedded in the settings of a command.
type Settings struct {
	OTLPDisabled       bool   `env:"OTEL_SDK_DISABLED"`
	OTLPExporter       string `env:"OTEL_TRACES_EXPORTER"`
	OTLPEndpoint       string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	OTLPTracesEndpoint string `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"`
	OTLPProtocol       string `env:"OTEL_EXPORTER_OTLP_PROTOCOL"`
	OTLPHeaders        string `env:"OTEL_EXPORTER_OTLP_HEADERS" secret:"file"`
	OTLPTimeout        int    `env:"OTEL_EXPORTER_OTLP_TIMEOUT"` // milliseconds
	OTLPSampler        string `env:"OTEL_TRACES_SAMPLER"`
	OTLPSamplerArg     string `env:"OTEL_TRACES_SAMPLER_ARG"`
	OTLPService        string `env:"OTEL_SERVICE_NAME"`
	OTLPResource       string `env:"OTEL_RESOURCE_ATTRIBUTES"`

	// CaptureContent adds the messages of models and the inputs and outputs of tools to the spans.
	CaptureContent bool `env:"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"`
}

// Check returns all faults of the settings. Each names its variable.
func (s *Settings) Check() error {
	var errs []error
	if _, err := s.sampler(); err != nil {
		errs = append(errs, err)
	}
	if _, err := pairs("OTEL_EXPORTER_OTLP_HEADERS", s.OTLPHeaders); err != nil {
		errs = append(errs, err)
	}
	if _, err := pairs("OTEL_RESOURCE_ATTRIBUTES", s.OTLPResource); err != nil {
		errs = append(errs, err)
	}
	if s.OTLPProtocol != "" && s.OTLPProtocol != "http/protobuf" {
		errs = append(errs, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL %.40q is not supported; use http/protobuf", s.OTLPProtocol))
	}
	if s.OTLPExporter != "" && s.OTLPExporter != "otlp" && s.OTLPExporter != "none" {
		errs = append(errs, fmt.Errorf("OTEL_TRACES_EXPORTER %.40q is not supported; use otlp or none", s.OTLPExporter))
	}
	if s.OTLPTimeout < 0 {
		errs = append(errs, errors.New("OTEL_EXPORTER_OTLP_TIMEOUT must not be negative"))
	}
	if _, err := s.Endpoint(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Traces reports whether spans are exported.
func (s *Settings) Traces() bool {
	return !s.OTLPDisabled && s.OTLPExporter != "none" && (s.OTLPEndpoint != "" || s.OTLPTracesEndpoint != "")
}

// Endpoint returns the URL to which spans are sent, without a password and a query, which have no
// effect, or "". The path /v1/traces is added to the endpoint of all signals, but not to that of
// traces.
func (s *Settings) Endpoint() (string, error) {
	name := "OTEL_EXPORTER_OTLP_ENDPOINT"
	text := s.OTLPEndpoint
	if s.OTLPTracesEndpoint != "" {
		name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
		text = s.OTLPTracesEndpoint
	}
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s is not an http or https URL", name) // which may contain a password
	}
	if s.OTLPTracesEndpoint == "" {
		u = u.JoinPath("v1", "traces")
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String(), nil
}

// sampler returns the sampler of the settings.
func (s *Settings) sampler() (sdktrace.Sampler, error) {
	name := cmp.Or(s.OTLPSampler, "parentbased_always_on")
	kind, based := strings.CutPrefix(name, "parentbased_")
	var sampler sdktrace.Sampler
	switch kind {
	case "always_on":
		sampler = sdktrace.AlwaysSample()
	case "always_off":
		sampler = sdktrace.NeverSample()
	case "traceidratio":
		ratio, err := strconv.ParseFloat(cmp.Or(s.OTLPSamplerArg, "1"), 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) { // also NaN
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG %.40q is not a number from 0 to 1", s.OTLPSamplerArg)
		}
		sampler = sdktrace.TraceIDRatioBased(ratio)
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER %.40q is not supported; use always_on, always_off, traceidratio, "+
			"or one of them after parentbased_", name)
	}
	if based {
		sampler = sdktrace.ParentBased(sampler)
	}
	return sampler, nil
}

// resource returns the attributes of the server.
func (s *Settings) resource(service, version string) ([]attribute.KeyValue, error) {
	given, err := pairs("OTEL_RESOURCE_ATTRIBUTES", s.OTLPResource)
	if err != nil {
		return nil, err
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", service), attribute.String("service.version", version)}
	for key, value := range given {
		attributes = append(attributes, attribute.String(key, value))
	}
	if s.OTLPService != "" {
		attributes = append(attributes, attribute.String("service.name", s.OTLPService))
	}
	return attributes, nil // of two with one key, the last one is used
}

// pairs reads a list such as "key=value,other=value". The specification encodes values as in a URL.
func pairs(variable, list string) (map[string]string, error) {
	values := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil {
			return nil, fmt.Errorf("%s is not a list such as key=value,other=value", variable) // values may be secret
		}
		values[key] = value
	}
	return values, nil
}
