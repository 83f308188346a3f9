package upstream

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/seed93082962/agenthost/runtime/model"
)

// Tools caches the JSON of the tools that were offered last. They are usually the same in each
// call. Checking and copying their schemas each time would take longer than all other work before a
// request is sent. Its zero value is ready for use.
type Tools struct{ last atomic.Pointer[offer] }

// offer is immutable.
type offer struct {
	tools []model.Tool
	field []byte // of the request, and the comma before it
}

// Encode returns the JSON of a request with the fields of settings, "tools" and the fields of
// conversation. Both must have at least one field. form returns the value of "tools", which is left
// out if there are none.
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

// sameTool is fast for tools that share their texts.
func sameTool(a, b model.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
}
