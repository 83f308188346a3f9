package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/sse"
)

// Limits of journals, in bytes.
const (
	maxJournal       = 8 << 20  // of one
	maxKept          = 64 << 20 // of all that have ended
	maxTenantKept    = maxKept / 4
	journalOverhead  = 1 << 10 // of one that has ended, besides its events
	firstChunk       = 1 << 10
	fullChunk        = 32 << 10
	keepJournal      = 5 * time.Minute // after the end of its answer
	maxJournalNumber = 20              // digits
)

// journal has the latest events of an answer, encoded and with ids, for any number of readers. The
// owner of the answer appends to it, and no reader delays it: events that a reader has not read are
// removed when the journal is full, or when there is no memory.
type journal struct {
	tag    string // distinguishes its ids from those of another hub
	tenant string
	run    string
	memory account
	reader account   // the empty account of a reader of it
	ended  time.Time // zero in progress; guarded by the mutex of the relay
	gaps   gaps

	mu     sync.Mutex // guards the fields below
	answer *Answer    // in progress: it has the text of removed events. nil after the last event
	chunks []chunk
	first  int           // the number of the first event that the journal has
	next   int           // the number of the next event
	size   int           // bytes of the chunks
	wake   chan struct{} // closed by publish; nil while no reader waits
	id     []byte        // the field of the id of the last event
}

// chunk has consecutive events. Bytes are only appended to the data, so that readers need no copy.
type chunk struct {
	first int // the number of the first event
	data  []byte
}

// newJournal returns the journal of an answer whose next event has a number. The events before it
// are missing.
func (a *Answer) newJournal(number int) *journal {
	return &journal{
		tag: rand.Text()[:6], tenant: a.run.TenantID, run: a.run.ID, answer: a, first: number, next: number,
		memory: account{budget: a.relay.journalMemory, holder: a.run.TenantID}, reader: a.relay.reader(a.run),
	}
}

var eventEnd = []byte("\n\n")

// append appends encoded events without ids.
func (j *journal) append(events []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(events) > 0 {
		n := bytes.Index(events, eventEnd) + len(eventEnd)
		j.add(events[:n])
		events = events[n:]
	}
}

// add appends an event, or only counts it if there is no memory.
func (j *journal) add(event []byte) {
	j.id = append(j.id[:0], "id: "...)
	j.id = append(j.id, j.tag...)
	j.id = append(j.id, '-')
	j.id = strconv.AppendInt(j.id, int64(j.next), 10)
	j.id = append(j.id, '\n')
	number := j.next
	j.next++
	if !j.room(len(j.id)+len(event), number) {
		j.first = j.next
		return
	}

	last := &j.chunks[len(j.chunks)-1]
	last.data = append(append(last.data, j.id...), event...)
}

// room makes room for an event in the last chunk.
func (j *journal) room(size, number int) bool {
	if n := len(j.chunks); n > 0 {
		last := j.chunks[n-1].data
		if cap(last)-len(last) >= size {
			return true
		}
	}

	size = max(size, min(max(j.size, firstChunk), fullChunk))
	for len(j.chunks) > 0 && j.size+size > maxJournal {
		j.shift(number)
	}

	err := j.memory.reserve(size)
	for err != nil && len(j.chunks) > 0 {
		j.shift(number)
		err = j.memory.reserve(size)
	}

	if err != nil {
		return false
	}

	j.size += size
	j.chunks = append(j.chunks, chunk{number, make([]byte, 0, size)})
	return true
}

// shift removes the oldest chunk. next is the number of the event after all chunks.
func (j *journal) shift(next int) {
	size := cap(j.chunks[0].data)
	j.chunks[0] = chunk{}
	j.chunks = j.chunks[1:]
	j.size -= size
	_ = j.memory.reserve(-size) // it only releases
	j.first = next
	if len(j.chunks) > 0 {
		j.first = j.chunks[0].first
	}
}

// publish wakes the readers.
func (j *journal) publish() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
}

// end ends the journal after its last event.
func (j *journal) end() {
	j.mu.Lock()
	j.answer = nil
	j.mu.Unlock()
	j.publish()
}

// discard removes all events of a journal that has ended.
func (j *journal) discard() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.chunks) > 0 {
		j.shift(j.next)
	}

	j.first = j.next
}

// held returns the memory of a journal that has ended.
func (j *journal) held() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size + journalOverhead
}

// errRemoved is the error of a read of events that the journal does not have.
var errRemoved = errors.New("the events are removed")

// read returns the events from a number on that are in one chunk, and changes the number to that of
// the event after them. If there are none yet, it returns a channel that is closed when there are;
// after the last event, the error is io.EOF.
func (j *journal) read(number *int) ([]byte, <-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case *number < j.first:
		return nil, nil, errRemoved
	case *number >= j.next && j.answer == nil:
		return nil, nil, io.EOF
	case *number >= j.next:
		if j.wake == nil {
			j.wake = make(chan struct{})
		}

		return nil, j.wake, nil
	}

	i := len(j.chunks) - 1
	for ; j.chunks[i].first > *number; i-- {
	}

	data := j.chunks[i].data
	for skip := *number - j.chunks[i].first; skip > 0; skip-- {
		data = data[bytes.Index(data, eventEnd)+len(eventEnd):]
	}

	*number = j.next
	if i+1 < len(j.chunks) {
		*number = j.chunks[i+1].first
	}

	return data, nil, nil
}

// numberAfter returns the number of the event after the one with an id. It is 0 for an id of
// another journal, whose events a reader may have that this one does not.
func (j *journal) numberAfter(id string) int {
	if id == "" {
		return 1
	}

	digits, ok := strings.CutPrefix(id, j.tag+"-")
	number, err := strconv.Atoi(digits)
	j.mu.Lock()
	defer j.mu.Unlock()
	if !ok || err != nil || len(digits) > maxJournalNumber || number < 1 || number >= j.next {
		return 0
	}

	return number + 1
}

// idOf returns the id of the event with a number.
func (j *journal) idOf(number int) string { return j.tag + "-" + strconv.Itoa(number) }

// ErrNoJournal is returned by [Relay.Follow] if this hub does not have the events: the reader gets
// what is stored.
var ErrNoJournal = errors.New("this hub does not have the events of the answer")

// errTooSlow ends a reader that was told of a gap before.
var errTooSlow = errors.New("the reader does not read the events in time")

// Follow sends the events of the answer of a run after the one with an id, or all, until the end of
// the answer or of ctx. If the journal does not have the next event, Follow sends a gap and the
// answer so far, once. It returns the id of the last event that was sent, or after.
func (r *Relay) Follow(ctx context.Context, stream *sse.Stream, runID, after string) (string, error) {
	j := r.journalOf(runID)
	if j == nil {
		return after, ErrNoJournal
	}

	number := j.numberAfter(after)
	begin := number
	err := j.follow(ctx, stream, &number)
	if number != begin {
		after = j.idOf(number - 1)
	}

	return after, err
}

// follow sends the events from a number on, which it changes to that of the next event.
func (j *journal) follow(ctx context.Context, stream *sse.Stream, at *int) error {
	for gaps := 0; ; {
		next := *at
		events, wake, err := j.read(&next)
		switch {
		case errors.Is(err, errRemoved) && gaps > 0:
			return errTooSlow
		case errors.Is(err, errRemoved):
			gaps++
			if err := j.sendGap(stream, at); err != nil {
				return err
			}

		case errors.Is(err, io.EOF):
			return nil
		case wake != nil:
			if err := stream.Flush(); err != nil {
				return err
			}

			select {
			case <-wake:
			case <-ctx.Done():
				return context.Cause(ctx)
			}

		default:
			if err := j.send(stream, events); err != nil {
				return err
			}

			*at = next
		}
	}
}

// endsAfter reports whether the event with an id was the last one.
func (j *journal) endsAfter(id string) bool {
	number := j.numberAfter(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	return id != "" && number == j.next && j.answer == nil
}

// EndsAfter reports whether the answer of a run has ended, and the event with an id was its last
// one.
func (r *Relay) EndsAfter(runID, id string) bool {
	j := r.journalOf(runID)
	return j != nil && j.endsAfter(id)
}

// send queues events. A large one is in memory until the reader has read it.
func (j *journal) send(stream *sse.Stream, events []byte) error {
	memory := j.reader
	defer memory.release()
	if len(events) > fullChunk {
		if err := memory.reserve(len(events)); err != nil {
			return err
		}
	}

	return stream.QueueEvents(events)
}
