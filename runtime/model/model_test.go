package model_test

import (
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
)

func TestErrorShowsNoCause(t *testing.T) {
	err := &model.Error{Code: model.Code(runvalue.ErrorTypeConnection), Message: "the connection broke off", Err: io.ErrUnexpectedEOF}
	require.EqualError(t, err, "connection: the connection broke off")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, errors.Unwrap(&model.Error{Code: model.Code(runvalue.ErrorTypeAuth)}))
}

func TestMessage(t *testing.T) {
	m := model.Message{Role: model.RoleAssistant, Content: []model.Block{
		{Type: model.BlockThinking, Text: "so", Signature: "s"},
		{Type: model.BlockText, Text: "a"},
		{Type: model.BlockToolUse, ID: "c1", Name: "Read", Input: []byte(`{"n":1}`)},
		{Type: model.BlockText, Text: "b"},
		{Type: model.BlockToolUse, ID: "c2", Name: "Now", Input: []byte(`{}`), BadInput: "["},
	}}
	require.Equal(t, "ab", m.Text())
	require.Equal(t, []model.Block{m.Content[2], m.Content[4]}, m.ToolUses())

	// Sessions store this form, and later versions must be able to read it.
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	require.JSONEq(t, `{"role":"assistant","content":[
		{"type":"thinking","text":"so","signature":"s"},
		{"type":"text","text":"a"},
		{"type":"tool_use","id":"c1","name":"Read","input":{"n":1}},
		{"type":"text","text":"b"},
		{"type":"tool_use","id":"c2","name":"Now","input":{},"bad_input":"["}]}`, string(raw))
	var back model.Message
	require.NoError(t, json.Unmarshal(raw, &back))
	require.Equal(t, m, back)
}

// TestTextOfManyBlocks verifies that Text allocates little for the maximum number of blocks.
func TestTextOfManyBlocks(t *testing.T) {
	var m model.Message
	for range collect.MaxBlocks {
		m.Content = append(m.Content, model.Block{Type: model.BlockText, Text: "text"})
	}
	require.Less(t, testing.AllocsPerRun(10, func() { _ = m.Text() }), 30.0)
	require.Len(t, m.Text(), 4*collect.MaxBlocks)
}
