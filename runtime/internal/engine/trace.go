package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Attributes of the semantic conventions for generative AI, version 1.41.
const (
	attrOperation     = "gen_ai.operation.name"
	attrProvider      = "gen_ai.provider.name"
	attrAgentID       = "gen_ai.agent.id"
	attrAgentName     = "gen_ai.agent.name"
	attrConversation  = "gen_ai.conversation.id"
	attrRequestModel  = "gen_ai.request.model"
	attrMaxTokens     = "gen_ai.request.max_tokens"
	attrResponseModel = "gen_ai.response.model"
	attrFinishReasons = "gen_ai.response.finish_reasons"
	attrInputTokens   = "gen_ai.usage.input_tokens"
	attrOutputTokens  = "gen_ai.usage.output_tokens"
	attrCacheRead     = "gen_ai.usage.cache_read.input_tokens"
	attrCacheCreation = "gen_ai.usage.cache_creation.input_tokens"
	attrToolName      = "gen_ai.tool.name"
	attrToolCallID    = "gen_ai.tool.call.id"
	attrToolType      = "gen_ai.tool.type"
	attrErrorType     = "error.type"

	// Content, only with Config.TraceContent.
	attrSystem        = "gen_ai.system_instructions"
	attrInput         = "gen_ai.input.messages"
	attrOutput        = "gen_ai.output.messages"
	attrToolArguments = "gen_ai.tool.call.arguments"
	attrToolResult    = "gen_ai.tool.call.result"

	// Attributes that the conventions do not have.
	attrRunID     = "agenthost.run.id"
	attrMetadata  = "agenthost.run.metadata."
	attrEstimated = "agenthost.usage.estimated"
)

// maxValue bounds names and ids that a model or an upstream chooses, in bytes.
const maxValue = 256

// tracer has the attributes with which the spans of an agent start. The others are set together at
// the end, because a span reallocates its attributes for each addition.
type tracer struct {
	trace.Tracer
	run, chat []trace.SpanStartOption
}

func newTracer(cfg *Config) tracer {
	p := cfg.TracerProvider
	if p == nil {
		p = noop.NewTracerProvider()
	}

	provider, model := attribute.String(attrProvider, cfg.Provider), attribute.String(attrRequestModel, cfg.Request.Model)
	run := []attribute.KeyValue{attribute.String(attrOperation, "invoke_agent"), provider, model,
		attribute.String(attrAgentID, cfg.AgentID), attribute.String(attrAgentName, cfg.Name)}
	chat := []attribute.KeyValue{attribute.String(attrOperation, "chat"), provider, model}
	if cfg.Request.MaxOutputTokens > 0 {
		chat = append(chat, attribute.Int(attrMaxTokens, cfg.Request.MaxOutputTokens))
	}

	return tracer{
		Tracer: p.Tracer(scope),
		run:    []trace.SpanStartOption{trace.WithAttributes(run...)},
		chat:   []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(chat...)},
	}
}

// startSpan starts the span of a run. The run of a subagent is in the span of its tool call.
// That of a run with answers has a link to the run that waited for them.
func (r *runState) startSpan(ctx context.Context) (context.Context, trace.Span) {
	options := r.engine.tracer.run
	if r.in.Answers != nil {
		options = append(slices.Clip(options), trace.WithLinks(r.in.Answers.wait.link()...))
	}

	return r.engine.tracer.Start(ctx, "invoke_agent "+r.engine.cfg.Name, options...)
}

// link returns the link to the span of the run that waited, if it had one.
func (w *wait) link() []trace.Link {
	traceID, traceErr := trace.TraceIDFromHex(w.TraceID)
	spanID, spanErr := trace.SpanIDFromHex(w.SpanID)
	if traceErr != nil || spanErr != nil {
		return nil
	}

	return []trace.Link{{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, Remote: true})}}
}

// endSpan ends the span of a run. The usage includes that of subagents.
func (r *runState) endSpan(span trace.Span, err error) {
	if span.IsRecording() {
		attributes := append(make([]attribute.KeyValue, 0, 6+len(r.in.Metadata)),
			attribute.String(attrConversation, r.in.Session.ID()), attribute.String(attrRunID, r.in.RunID))
		for key, value := range r.in.Metadata {
			attributes = append(attributes, attribute.String(attrMetadata+key, value))
		}

		span.SetAttributes(appendUsage(attributes, r.outcome.Usage)...)
		failSpan(span, runErrorType(err))
	}

	span.End()
}

// runErrorType returns the error.type of a run, or "" for a success.
func runErrorType(err error) string {
	if err == nil {
		return ""
	}

	var upstream *model.Error
	var cancelled wire.Reason
	var invalid *OutputError
	switch {
	case errors.As(err, &upstream):
		return boundedCode(upstream.Code)
	case errors.Is(err, ErrRunTimeout):
		return runvalue.ErrorTypeTimeout
	case errors.Is(err, ErrMaxTurns):
		return runvalue.ErrorTypeMaxTurns
	case errors.As(err, &invalid):
		return runvalue.ErrorTypeOutput
	case errors.As(err, &cancelled), errors.Is(err, context.Canceled):
		return outcomeCancelled
	}

	return runvalue.ErrorTypeExecution
}

// failSpan sets the error of a span. A cancelled operation did not fail.
func failSpan(span trace.Span, errorType string) {
	if errorType == "" {
		return
	}

	span.SetAttributes(attribute.String(attrErrorType, errorType))
	if errorType != outcomeCancelled {
		span.SetStatus(codes.Error, errorType)
	}
}

// modelCall is one call of the model, for metrics and traces.
type modelCall struct {
	run       *runState
	ctx       context.Context // with the span
	span      trace.Span
	begin     time.Time
	first     time.Time // of the first part, or zero
	responder string    // the model that responds, as upstream named it
	waited    func()
	request   *model.Request // nil until the model is called
	response  collect.Collector
}

// errPanicked is the error of a call in which the model panicked.
var errPanicked = errors.New("the model panicked")

func (r *runState) beginModelCall(ctx context.Context, messages []model.Message) *modelCall {
	cfg := &r.engine.cfg
	c := &modelCall{run: r, begin: time.Now(), waited: r.engine.metrics.wait(waitModel)}
	c.response.MaxBytes = cfg.MaxResponse
	c.ctx, c.span = r.engine.tracer.Start(ctx, "chat "+cfg.Request.Model, r.engine.tracer.chat...)
	if cfg.TraceContent && c.span.IsRecording() {
		c.span.SetAttributes(attribute.String(attrInput, messagesContent(messages, "")))
		if cfg.Request.System != "" {
			c.span.SetAttributes(attribute.String(attrSystem, textContent(cfg.Request.System)))
		}
	}

	return c
}

// named is model.Request.Named.
func (c *modelCall) named(name string) { c.responder = excerpt.Shorten(name, maxValue) }

// end ends the call with its response, or the beginning of it, and its error.
func (c *modelCall) end(response *collect.Response, err error) {
	c.waited()
	if response == nil {
		received := c.response.Response()
		response = &received
	}

	response.Usage = c.usage(response, err)
	c.run.spend(wire.Usage(response.Usage))
	errorType := ""
	switch {
	case err != nil && errors.Is(context.Cause(c.ctx), ErrRunTimeout):
		errorType = runvalue.ErrorTypeTimeout
	case err != nil && c.ctx.Err() != nil:
		errorType = outcomeCancelled
	default:
		errorType = runErrorType(err)
	}

	c.run.engine.metrics.modelCall(c.begin, c.first, &response.Usage, errorType)
	if c.span.IsRecording() {
		c.span.SetAttributes(c.attributes(response)...)
		if c.run.engine.cfg.TraceContent && len(response.Message.Content) > 0 {
			c.span.SetAttributes(attribute.String(attrOutput, messagesContent([]model.Message{response.Message}, response.StopReason)))
		}

		failSpan(c.span, errorType)
	}

	c.span.End()
}

// attributes returns those of the call, without content.
func (c *modelCall) attributes(response *collect.Response) []attribute.KeyValue {
	attributes := append(make([]attribute.KeyValue, 0, 7), attribute.String(attrConversation, c.run.in.Session.ID()))
	if c.responder != "" {
		attributes = append(attributes, attribute.String(attrResponseModel, c.responder))
	}

	if response.StopReason != "" {
		attributes = append(attributes, attribute.StringSlice(attrFinishReasons, []string{response.StopReason}))
	}

	return appendUsage(attributes, wire.Usage(response.Usage))
}

// appendUsage adds the tokens of a response. Those that were read from a cache or written to it are
// input tokens too. Most calls have none of them.
func appendUsage(attributes []attribute.KeyValue, u wire.Usage) []attribute.KeyValue {
	attributes = append(attributes,
		attribute.Int64(attrInputTokens, u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens),
		attribute.Int64(attrOutputTokens, u.OutputTokens))
	if u.CacheReadInputTokens > 0 {
		attributes = append(attributes, attribute.Int64(attrCacheRead, u.CacheReadInputTokens))
	}

	if u.CacheCreationInputTokens > 0 {
		attributes = append(attributes, attribute.Int64(attrCacheCreation, u.CacheCreationInputTokens))
	}

	if u.Estimated {
		attributes = append(attributes, attribute.Bool(attrEstimated, true))
	}

	return attributes
}

// observeTool runs a tool call, and records it in metrics and traces.
func (r *runState) observeTool(ctx context.Context, block *model.Block, emit func(wire.Payload)) result {
	e := r.tools.entries[block.Name]
	begin := time.Now()
	ctx, span := r.startToolSpan(ctx, e, block)
	done := r.engine.metrics.wait(waitTool)
	res := r.runToolCall(ctx, block, emit)
	if answered := r.answers[block.ID]; answered != nil {
		res = answered.explain(res)
	}

	done()
	res.duration = time.Since(begin)
	r.engine.metrics.toolCall(e, &res)
	if span.IsRecording() {
		if r.engine.cfg.TraceContent {
			span.SetAttributes(attribute.String(attrToolResult, excerpt.Shorten(res.output, maxContent)))
		}

		switch {
		case res.denied != nil, res.rejected:
			failSpan(span, "permission_denied")
		case res.question != nil:
		case ctx.Err() != nil && res.isError:
			failSpan(span, outcomeCancelled)
		case res.isError:
			failSpan(span, "tool_error")
		}
	}

	span.End()
	return res
}

func (r *runState) startToolSpan(ctx context.Context, e *offeredTool, block *model.Block) (context.Context, trace.Span) {
	name := "other" // the name of a tool that does not exist is only an attribute
	if e != nil {
		name = e.spec.Name
	}

	ctx, span := r.engine.tracer.Start(ctx, "execute_tool "+name)
	if !span.IsRecording() {
		return ctx, span
	}

	span.SetAttributes(
		attribute.String(attrOperation, "execute_tool"), attribute.String(attrToolName, excerpt.Shorten(block.Name, maxValue)),
		attribute.String(attrToolCallID, excerpt.Shorten(block.ID, maxValue)), attribute.String(attrToolType, "function"))
	if r.engine.cfg.TraceContent {
		span.SetAttributes(attribute.String(attrToolArguments, excerpt.Shorten(string(block.Input), maxContent)))
	}

	return ctx, span
}
