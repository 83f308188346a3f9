package relay

import (
	"bytes"
	"math"
	"sync"

	"github.com/seed93082962/agenthost/sse"
)

// StoredCopies is how often a stored answer is in memory, and how often again for each reader that
// it is sent to, at most.
const StoredCopies = 2

// gaps has the gap of a journal that readers are sent.
type gaps struct {
	mu   sync.Mutex // guards the field below, and the readers of each gap
	last *gap       // nil without readers
}

// gap is a gap and the answer so far. The readers that are too late share it.
type gap struct {
	first   []byte // the first event of the answer
	events  []byte // only the last one has an id: a reader that does not receive all gets another gap
	next    int    // the number of the event after it
	readers int
	memory  account
}

// enterGap returns a gap until the caller calls leaveGap. The journal has the next event of it. The
// first reader encodes it, and others wait for that: neither the answer nor the journal is locked.
func (j *journal) enterGap() (*gap, error) {
	j.gaps.mu.Lock()
	defer j.gaps.mu.Unlock()
	j.mu.Lock()
	a, first := j.answer, j.first
	j.mu.Unlock()
	if a == nil { // it is stored
		return nil, ErrNoJournal
	}

	g := j.gaps.last
	if g == nil || g.next < first {
		g = &gap{memory: j.reader}
		if err := g.encode(a, j); err != nil {
			g.memory.release()
			return nil, err
		}

		j.gaps.last = g
	}

	g.readers++
	return g, nil
}

func (j *journal) leaveGap(g *gap) {
	j.gaps.mu.Lock()
	defer j.gaps.mu.Unlock()
	if g.readers--; g.readers > 0 {
		return
	}

	g.memory.release()
	if j.gaps.last == g {
		j.gaps.last = nil
	}
}

// encode encodes the answer so far.
func (g *gap) encode(a *Answer, j *journal) error {
	a.mu.Lock()
	text := a.text // the bytes so far do not change: others are appended to them
	j.mu.Lock()
	g.next = j.next
	j.mu.Unlock()
	a.mu.Unlock()
	if err := g.memory.reserve(2 * StoredCopies * text.size()); err != nil {
		return err
	}

	content := text.content()
	stored := Stored{
		SessionID: a.run.SessionID, MessageID: a.run.MessageID, Model: text.model, maxBlocks: fullChunk,
		Blocks: Labelled(content.text, content.blocks, a.run.noticeSoFar(), a.run.NoticeAt),
	}
	nowhere := Place{blocks: math.MaxInt}
	queue := func(ev sse.Event) (err error) {
		g.events, err = ev.Append(g.events)
		return err
	}
	if err := send(queue, a.beginning(), ""); err != nil {
		return err
	}

	g.first, g.events = g.events, nil
	if err := stored.send(queue, &nowhere, func(Place) string { return "" }); err != nil {
		return err
	}

	return queue(sse.Event{ID: j.idOf(g.next - 1)})
}

// sendGap sends a gap and the answer so far, before them the first event if the reader has none,
// and changes the number of the next event.
func (j *journal) sendGap(stream *sse.Stream, at *int) error {
	g, err := j.enterGap()
	if err != nil {
		return err
	}

	defer j.leaveGap(g)
	if *at == 1 {
		if err := stream.QueueEvents(g.first); err != nil {
			return err
		}
	}

	for events := g.events; len(events) > 0; {
		part := partOf(events)
		events = events[len(part):]
		if err := j.send(stream, part); err != nil {
			return err
		}
	}

	*at = g.next
	return nil
}

// partOf returns the first events, of at most a chunk, or the first one.
func partOf(events []byte) []byte {
	if len(events) <= fullChunk {
		return events
	}

	if n := bytes.LastIndex(events[:fullChunk], eventEnd); n >= 0 {
		return events[:n+len(eventEnd)]
	}

	return events[:bytes.Index(events, eventEnd)+len(eventEnd)]
}
