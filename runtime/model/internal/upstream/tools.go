package upstream

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/seed93082962/agenthost/runtime/model"
)

// Tools keeps the JSON of the tools that were offered last. They are most of what a conversation
// begins with, and the same from call to call: checking and copying their schemas each time took
// longer than all else that is done before a request is sent. Its zero value is ready for use.
type Tools struct{ last atomic.Pointer[offer] }

// offer is not changed once it is made.
type offer struct {
	tools []model.Tool
	field []byte // of the request, and the comma before it
}

// Encode makes the JSON of a request that consists of the fields of settings, "tools" and those of
// conversation: two structs that have some. The field holds what form makes of the tools; without any
// it is left out.
func (t *Tools) Encode(settings any, tools []model.Tool, form func([]model.Tool) any, conversation any) (*Body, error) {
	body, err := encode(settings, conversation)
	if err != nil || len(tools) == 0 {
		return body, err
	}
	last := t.last.Load()
	if last == nil || !slices.EqualFunc(last.tools, tools, sameTool) {
		list, err := Encode(form(tools))
		if err != nil {
			return nil, err
		}
		last = &offer{slices.Clone(tools), append([]byte(`,"tools":`), list.data...)}
		t.last.Store(last)
	}
	body.tools = last.field
	return body, nil
}

// sameTool takes next to no time for tools that share their texts.
func sameTool(a, b model.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
}
