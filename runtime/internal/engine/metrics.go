package engine

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/meter"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
)

// scope is the name of the meter and of the tracer of this package.
const scope = "github.com/seed93082962/agenthost/runtime/internal/engine"

// Kinds of tools in metrics.
const (
	kindBuiltin = "builtin"
	kindCustom  = "custom" // of Config.Tools
	kindMCP     = "mcp"
	kindTask    = "task"
	kindClient  = "client" // of the client of a run
	kindOutput  = "output" // of the runtime, for the output of a run with a schema
)

// outcomes are the ends of a call of the model: the codes of its errors, and these two.
const (
	outcomeSuccess   = "success"
	outcomeCancelled = "cancelled"
)

// metrics has the instruments of an agent. All attributes have values of the configuration or of a
// fixed list.
type metrics struct {
	tokens     metric.Int64Counter
	calls      metric.Float64Histogram
	firstToken metric.Float64Histogram
	errors     metric.Int64Counter
	repeats    metric.Int64Counter
	toolCalls  metric.Int64Counter
	toolTimes  metric.Float64Histogram
	waiting    metric.Int64UpDownCounter

	pending     metric.Int64Counter
	answers     metric.Int64Counter
	answerTimes metric.Float64Histogram
	inputKinds  *meter.Series // agent, kind
	decisions   *meter.Series // agent, kind, decision

	agent, model string
	of           metric.MeasurementOption // the agent and the model
	kinds        []tokenKind
	waits        map[string]metric.MeasurementOption
	outcomes     *meter.Series // agent, model, outcome
	failures     *meter.Series // agent, model, error_type
	results      *meter.Series // agent, tool, kind, result
	toolKinds    *meter.Series // agent, kind
}

// days are the bounds of the buckets of what a person does, in seconds.
var days = []float64{1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400}

// tokenKind is a kind of tokens with the attributes of its counter.
type tokenKind struct {
	count     func(*model.Usage) int64
	of        metric.MeasurementOption
	estimated metric.MeasurementOption
}

// States of a run that waits, the values of the attribute for.
const (
	waitModel  = "model"
	waitTool   = "tool"
	waitServer = "mcp_server"
)

func newMetrics(cfg *Config) (*metrics, error) {
	m := meter.New(cfg.MeterProvider, scope)
	x := &metrics{
		tokens: m.Counter("agenthost.tokens", "Tokens, as upstream counted them. type is input, output, cache_creation or cache_read. "+
			"estimated is true for calls without a final usage."),
		calls: m.Seconds("agenthost.model.call.duration",
			"How long calls of models took. outcome is success, cancelled or the error_type of the failure.", meter.Slow),
		firstToken: m.Seconds("agenthost.model.first_token", "Time from a call of a model to the first part of its response.", meter.Slow),
		errors:     m.Counter("agenthost.upstream.errors", "Calls of models that failed, by error_type."),
		repeats:    m.Counter("agenthost.model.repeats", "Calls of models that were repeated with a changed conversation or another form of the output, by the error_type of the rejected call."),
		toolCalls: m.Counter("agenthost.tool.calls", "Tool calls that ended. result is ok, error, denied or input_required. "+
			"tool is the name of a tool, that of the server for a tool of an MCP server, and other for one that does not exist."),
		toolTimes: m.Seconds("agenthost.tool.call.duration", "How long tool calls took, including the wait for an approval.", meter.Slow),
		waiting:   m.Current("agenthost.runs.waiting", "Runs and subagents that wait, by what they wait for: model, tool or mcp_server."),
		pending:   m.Counter("agenthost.inputs.required", "What runs ended waiting for. kind is approval, client_tool or question."),
		answers: m.Counter("agenthost.inputs.answered", "Answers of what runs waited for, and rejections by a message. "+
			"decision is approve, reject, output, error, accept, decline or cancel."),
		answerTimes: m.Seconds("agenthost.inputs.wait.duration", "Time from the end of a run that waits to its answer.", days),
		inputKinds:  meter.NewSeries("agent", "kind"), decisions: meter.NewSeries("agent", "kind", "decision"),
		agent: cfg.AgentID, model: cfg.Request.Model,
		of:       meter.Of("agent", cfg.AgentID, "model", cfg.Request.Model),
		waits:    map[string]metric.MeasurementOption{},
		outcomes: meter.NewSeries("agent", "model", "outcome"), failures: meter.NewSeries("agent", "model", "error_type"),
		results: meter.NewSeries("agent", "tool", "kind", "result"), toolKinds: meter.NewSeries("agent", "kind"),
	}
	for name, count := range map[string]func(*model.Usage) int64{
		"input":          func(u *model.Usage) int64 { return u.InputTokens },
		"output":         func(u *model.Usage) int64 { return u.OutputTokens },
		"cache_creation": func(u *model.Usage) int64 { return u.CacheCreationInputTokens },
		"cache_read":     func(u *model.Usage) int64 { return u.CacheReadInputTokens },
	} {
		of := func(estimated string) metric.MeasurementOption {
			return meter.Of("agent", x.agent, "model", x.model, "type", name, "estimated", estimated)
		}
		x.kinds = append(x.kinds, tokenKind{count: count, of: of("false"), estimated: of("true")})
	}

	for _, what := range []string{waitModel, waitTool, waitServer} {
		x.waits[what] = meter.Of("agent", x.agent, "for", what)
	}

	return x, m.Err()
}

// waitFor counts something that a session waits for from now on.
func (x *metrics) waitFor(kind string) {
	x.pending.Add(context.Background(), 1, x.inputKinds.Of(x.agent, kind))
}

// answer counts an answer that came some time after the session began to wait.
func (x *metrics) answer(kind, decision string, after time.Duration) {
	ctx := context.Background()
	x.answers.Add(ctx, 1, x.decisions.Of(x.agent, kind, decision))
	x.answerTimes.Record(ctx, after.Seconds(), x.inputKinds.Of(x.agent, kind))
}

// wait counts a wait until the returned function is called.
func (x *metrics) wait(what string) func() {
	x.waiting.Add(context.Background(), 1, x.waits[what])
	return func() { x.waiting.Add(context.Background(), -1, x.waits[what]) }
}

// modelCall records a call of the model with the usage of its response and its error, if any. first
// is the time of the first part, or zero.
func (x *metrics) modelCall(begin, first time.Time, usage *model.Usage, errorType string) {
	ctx := context.Background()
	outcome := outcomeSuccess
	if errorType != "" {
		outcome = errorType
	}

	x.calls.Record(ctx, time.Since(begin).Seconds(), x.outcomes.Of(x.agent, x.model, outcome))
	if !first.IsZero() {
		x.firstToken.Record(ctx, first.Sub(begin).Seconds(), x.of)
	}

	if errorType != "" && errorType != outcomeCancelled {
		x.errors.Add(ctx, 1, x.failures.Of(x.agent, x.model, errorType))
	}

	for _, kind := range x.kinds {
		if n := kind.count(usage); n > 0 {
			of := kind.of
			if usage.Estimated {
				of = kind.estimated
			}

			x.tokens.Add(ctx, n, of)
		}
	}
}

// repeat counts a call of the model that follows a rejected one.
func (x *metrics) repeat(errorType string) {
	x.repeats.Add(context.Background(), 1, x.failures.Of(x.agent, x.model, errorType))
}

// toolCall records a call of a tool. e is nil for a name that no tool has.
func (x *metrics) toolCall(e *offeredTool, res *result) {
	name, kind := meter.Other, meter.Other // a name that the model invented must not become a series
	if e != nil {
		name, kind = e.label, e.kind
	}

	outcome := "ok"
	switch {
	case res.denied != nil, res.rejected:
		outcome = "denied"
	case res.question != nil:
		outcome = runvalue.ResultInput
	case res.isError:
		outcome = "error"
	}

	ctx := context.Background()
	x.toolCalls.Add(ctx, 1, x.results.Of(x.agent, name, kind, outcome))
	x.toolTimes.Record(ctx, res.duration.Seconds(), x.toolKinds.Of(x.agent, kind))
}

// modelCodes are the values of error types. A model of an embedder may return others.
var modelCodes = map[model.Code]bool{
	runvalue.ErrorTypeConnection: true, runvalue.ErrorTypeRateLimit: true, runvalue.ErrorTypeOverloaded: true, runvalue.ErrorTypeServer: true, runvalue.ErrorTypeAuth: true,
	runvalue.ErrorTypePromptTooLong: true, runvalue.ErrorTypeInvalidRequest: true, runvalue.ErrorTypeUnknown: true, runvalue.ErrorTypeTimeout: true,
}

// boundedCode returns the code of an error as the value of an attribute.
func boundedCode(code model.Code) string {
	if modelCodes[code] {
		return string(code)
	}

	return meter.Other
}
