package relay

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// startSpan starts the span of an answer, if the request has one that is recorded. Its attributes
// are those of the semantic conventions for generative AI. It has no content.
func startSpan(ctx context.Context, r AnswerRun) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noop.Span{}
	}

	return parent.TracerProvider().Tracer(scope).Start(ctx, "invoke_agent "+r.AgentName, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.agent.name", r.AgentName),
			attribute.String("gen_ai.conversation.id", r.SessionID), attribute.String("agenthost.tenant", r.TenantID),
		))
}

// endSpan ends the span of an answer that ends, or whose message could not be stored.
func endSpan(a *Answer) {
	if !a.span.IsRecording() {
		return
	}

	a.span.SetAttributes(attribute.String("agenthost.run.id", a.run.ID))
	if a.end == nil {
		a.span.SetStatus(codes.Error, "the message was not stored")
		a.span.End()
		return
	}

	used := a.text.usage // tokens that were read from a cache or written to it are input tokens in the conventions
	a.span.SetAttributes(
		attribute.String("agenthost.outcome", a.end.Status), attribute.String("gen_ai.response.model", a.text.model),
		attribute.Int64("gen_ai.usage.input_tokens", used.InputTokens+used.CacheReadInputTokens+used.CacheCreationInputTokens),
		attribute.Int64("gen_ai.usage.output_tokens", used.OutputTokens))
	if a.end.kind != "" {
		a.span.SetAttributes(attribute.String("error.type", a.end.kind))
		a.span.SetStatus(codes.Error, "")
	}

	a.span.End()
}
