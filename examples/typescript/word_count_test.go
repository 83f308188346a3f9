package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
)

// The test binary is the worker of the tool too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == js.WorkerArg {
		if worker.Run(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A tool is tested like a function: with inputs, and with those that a model should not send.
//
//	agenthost tools test word_count.ts '{"text": "one two"}'
//
// does the same in a shell.
func TestWordCount(t *testing.T) {
	host, err := js.New(js.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, host.Close()) }()
	wordCount, err := host.Load(t.Context(), agent.CustomTool{Path: "word_count.ts"})
	require.NoError(t, err)
	require.Equal(t, "Counts the words of a text.", wordCount.Spec().Description)
	for input, want := range map[string]string{
		`{"text": "one two  three"}`: `{"words":3}`,
		`{"text": " "}`:              `{"words":0}`,
		`{"text": 7}`:                "text must be a string",
	} {
		result, err := wordCount.Call(t.Context(), tool.Call{ID: "1", Input: json.RawMessage(input)})
		require.NoError(t, err)
		require.Contains(t, result.Output, want)
		require.Equal(t, want == "text must be a string", result.IsError)
	}
}
