package engine

import (
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// maxPartial limits the text of one partial message, in bytes. JSON may need six bytes for one
// byte of text, and an event must stay below 4 MiB.
const maxPartial = 512 << 10

// emitInit emits the first event of the run.
func (r *run) emitInit() {
	if r.in.Init == nil {
		return
	}
	r.in.Init.Tools = r.knownTools()
	r.in.Init.MCPServers = append([]wire.MCPStatus{}, r.servers...)
	r.out.Emit(&wire.System{Type: "system", Subtype: wire.SystemInit, Init: r.in.Init})
}

// emitPart emits the partial message of a part, and flushes if the model has sent no further part
// yet.
func (r *run) emitPart(part *model.Part) {
	if r.in.Partials {
		p := &r.partial.Partial
		switch part.Kind {
		case model.KindText:
			r.emitIncrement(wire.PartialText, part.Text)
		case model.KindThinking:
			r.emitIncrement(wire.PartialThinking, part.Text)
		case model.KindToolUse:
			*p = wire.Partial{Type: wire.PartialToolUse, ToolName: part.Name, ToolUseID: part.ID}
			r.out.Emit(&r.partial)
		}
	}
	if !part.More {
		r.out.Flush()
	}
}

// emitIncrement emits increment as one partial message, or as several if it is long.
func (r *run) emitIncrement(partialType, increment string) {
	for increment != "" {
		head := excerpt.Head(increment, maxPartial)
		r.partial.Partial = wire.Partial{Type: partialType, Text: head}
		r.out.Emit(&r.partial)
		increment = increment[len(head):]
	}
}

// assistantEvent returns the event of a complete response.
func (r *run) assistantEvent(response *model.Response) wire.Payload {
	content := make([]wire.Block, 0, len(response.Message.Content))
	for i := range response.Message.Content {
		switch b := &response.Message.Content[i]; b.Type {
		case model.BlockText:
			content = append(content, wire.Block{Type: string(b.Type), Text: b.Text})
		case model.BlockThinking:
			if b.Text != "" {
				content = append(content, wire.Block{Type: string(b.Type), Thinking: b.Text})
			}
		case model.BlockToolUse:
			content = append(content, wire.Block{Type: string(b.Type), ID: b.ID, Name: b.Name, Input: b.Input})
		}
	}
	return &wire.Assistant{
		Type: "assistant", UUID: ids.New(), SessionID: r.in.Session.ID(),
		Message: wire.AssistantMessage{
			Role: string(model.RoleAssistant), Content: content,
			Model: r.engine.cfg.Request.Model, StopReason: response.StopReason,
		},
		Usage: wire.Usage(response.Usage),
	}
}
