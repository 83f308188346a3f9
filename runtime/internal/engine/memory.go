package engine

import (
	"context"
	"sync"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	// freeMemory is not reserved: runs of ordinary size continue when others have used up the
	// memory. Subagents, of which a run has many, have none.
	freeMemory = 256 << 10
	// memoryStep is the unit of reservations, so that few of them are made.
	memoryStep = 64 << 10
	// copies is how often the text of a response is in memory, at most: its parts with the rest of
	// their buffer, the message, the line of the session, and the event.
	copies = 5
)

// memory is what a run has reserved by Config.Reserve.
type memory struct {
	reserve  func(bytes int) error // may be nil
	free     int                   // bytes that are not reserved
	messages int                   // bytes of the transcript and of its request
	reserved int
}

// hold reserves or releases memory for the transcript and size bytes of a response.
func (m *memory) hold(size int) error {
	need := m.messages + copies*size - m.free
	if m.reserve == nil || need <= m.reserved && need > m.reserved-memoryStep || need <= 0 && m.reserved == 0 {
		return nil
	}

	return m.change(max(0, (need+memoryStep-1)/memoryStep*memoryStep))
}

func (m *memory) change(need int) error {
	if err := m.reserve(need - m.reserved); err != nil {
		return err
	}

	m.reserved = need
	return nil
}

// holdMessages reserves memory for the messages of a request, and for its encoding with the system
// prompt. The messages include the results of tools.
func (r *runState) holdMessages(messages []model.Message) error {
	r.memory.messages = 2 * (len(r.engine.cfg.Request.System) + len(r.tools.instructions))
	if r.structured.OutputSchema != nil {
		r.memory.messages += 2 * len(r.structured.text)
	}

	for i := range messages {
		r.memory.messages += 2 * messages[i].Size()
		for j := range messages[i].Content {
			if b := &messages[i].Content[j]; len(b.Images) > 0 || len(b.PDF) > 0 {
				r.memory.messages += 2 * b.Bytes() // base64 is longer
			}
		}
	}

	if err := r.memory.hold(0); err != nil {
		return err
	}

	r.results.release()
	return nil
}

// release releases everything.
func (m *memory) release() {
	if m.reserved > 0 {
		_ = m.change(0) // it only releases
	}
}

// noRoom is the result of a call for which there is no memory.
const noRoom = "The call has no result: the runs of this runtime together use too much memory (maxMemoryBytes). Try again later."

// resultMemory is what the results of one response have reserved by Config.Reserve, until they are
// in the transcript.
type resultMemory struct {
	reserve func(bytes int) error // may be nil
	free    int                   // bytes that are not reserved

	mu       sync.Mutex // guards the fields below
	size     int
	reserved int
}

// add reserves memory for more bytes of results, or releases it. It does nothing if it fails.
func (m *resultMemory) add(bytes int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	need := max(0, m.size+bytes-m.free)
	if m.reserve != nil && need != m.reserved {
		if err := m.reserve(need - m.reserved); err != nil {
			return err
		}
	}

	m.size += bytes
	m.reserved = need
	return nil
}

// release releases everything.
func (m *resultMemory) release() { _ = m.add(-m.size) }

// observeReserved is observeTool with memory for the longest output, which is reserved before the
// call. A call without memory is not made, and a result that needs more is left out.
func (r *runState) observeReserved(ctx context.Context, block *model.Block, emit func(wire.Payload)) result {
	longest := r.engine.cfg.MaxToolOutput
	if r.results.add(longest) != nil {
		return result{output: noRoom, isError: true}
	}

	res := r.observeTool(ctx, block, emit)
	size := 2 * len(res.output) // with its event
	for i := range res.images {
		size += len(res.images[i].Data)
	}

	if r.results.add(size-longest) != nil {
		_ = r.results.add(-longest) // it only releases
		res = result{output: noRoom, isError: true, denials: res.denials, duration: res.duration}
	}

	return res
}
