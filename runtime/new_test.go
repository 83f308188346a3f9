package runtime_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A runtime of which no agent is available is an error with all reasons, unless it is allowed. One
// available agent is enough.
func TestNewFailsWithoutAnAvailableAgent(t *testing.T) {
	lost := agent.Agent{ID: "lost", Model: "m", SystemPromptFile: "missing.md", CustomTools: []agent.CustomTool{{Path: "a.ts"}, {Path: "b.ts"}}, Provider: agent.Provider{Protocol: agent.ProtocolDemo}}
	keyless := agent.Agent{ID: "keyless", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolAnthropic}}
	unknown := agent.Agent{ID: "unknown", Model: "m", Provider: agent.Provider{Protocol: "smoke"}}
	demo := agent.Agent{ID: "demo", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}
	cfg := runtime.Config{CWD: t.TempDir(), Agents: []agent.Agent{lost, keyless, unknown}}
	_, err := runtime.New(t.Context(), cfg)
	for _, want := range []string{"no agent is available", "lost: load customTools[0]: ", "load customTools[1]: ", "read system prompt", "keyless: the provider has no API key", "unknown: "} {
		require.ErrorContains(t, err, want)
	}
	cfg.AllowUnavailable = true
	rt, err := runtime.New(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, rt.Unavailable(), 3)
	require.NoError(t, rt.Close())

	cfg.AllowUnavailable = false
	cfg.Agents = append(cfg.Agents, demo)
	rt, err = runtime.New(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, rt.Unavailable(), 3)
	require.NoError(t, rt.Close())

	cfg.Agents = nil
	rt, err = runtime.New(t.Context(), cfg)
	require.NoError(t, err, "a runtime without agents is not one without an available agent")
	require.NoError(t, rt.Close())
}

// own is a model of the caller's.
type own struct{}

func (own) Stream(context.Context, *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		_ = yield(model.Part{Kind: model.KindText, Text: "my own"}, nil) && yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
	}
}

// An own model needs neither a provider nor a built-in protocol. A provider that NewModel does not
// know has the adapter of its protocol.
func TestAnOwnModelNeedsNoProtocol(t *testing.T) {
	var seen []string
	cfg := runtime.Config{CWD: t.TempDir(), NewModel: func(p agent.Provider) (model.Model, error) {
		seen = append(seen, p.Protocol)
		switch p.Protocol {
		case "", "grpc":
			return own{}, nil
		case "broken":
			return nil, errors.New("the model cannot be loaded")
		}
		return nil, nil
	}}
	for _, protocol := range []string{"", "grpc", "broken", "smoke", agent.ProtocolDemo} {
		cfg.Agents = append(cfg.Agents, agent.Agent{ID: "a" + protocol, Model: "m", Provider: agent.Provider{Protocol: protocol}})
	}
	rt, err := runtime.New(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	require.Equal(t, []string{"", "grpc", "broken", "smoke", "demo"}, seen)
	require.Len(t, rt.Unavailable(), 2)
	require.ErrorContains(t, rt.Unavailable()["abroken"], "the model cannot be loaded")
	require.ErrorContains(t, rt.Unavailable()["asmoke"], "smoke")
	for _, id := range []string{"a", "agrpc"} {
		var result string
		for event, err := range rt.Run(t.Context(), id, wire.RunRequest{Message: "hello"}) {
			require.NoError(t, err)
			if p, ok := event.Payload.(*wire.Result); ok {
				result = *p.Result
			}
		}
		require.Equal(t, "my own", result)
	}

	cfg.NewModel = nil
	cfg.Agents = cfg.Agents[:1]
	_, err = runtime.New(t.Context(), cfg)
	require.ErrorContains(t, err, "provider", "without an own model it is missing")
}
