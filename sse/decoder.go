package sse

import (
	"fmt"
	"io"
	"iter"
	"time"
)

const (
	// A stream of tokens waits most of its life, with room for one event. One that fills its
	// buffer has more to come, and gets room for many; few small reads in a row give it back.
	minBuffer  = 1 << 10
	fullBuffer = 16 << 10
	smallReads = 8

	defaultEventLimit = 4 << 20
	defaultLineLimit  = defaultEventLimit + len("data: ")
)

// LimitError says that a stream went past a limit of its decoder.
type LimitError struct {
	Part  string // "line" or "event"
	Limit int    // bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("decode event stream: %s of more than %d bytes", e.Part, e.Limit)
}

// Decoder reads events as the WHATWG HTML standard tells, from a stream that may be split into
// chunks anywhere. It is not safe for concurrent use.
//
// One thing is not done to the letter: bytes that are no valid UTF-8 are passed on as they are,
// where the standard puts U+FFFD in their place. That changes no line and no field, encoding/json
// does it by itself, and whoever wants the bytes can have them.
type Decoder struct {
	r   io.Reader
	err error // of r or of a limit; what is buffered is given out first

	// buf[pos:end] is what is read and not yet parsed. No LF stands in buf[pos:lf] and no CR in
	// buf[pos:cr], so that no byte is searched twice for either.
	buf              []byte
	pos, end, lf, cr int
	filled           bool // the last Read left no room
	small            int  // how many Reads in a row would have fitted minBuffer
	started          bool // a byte order mark is not expected any more
	skipLF           bool // the last line ended in CR: an LF right after it belongs to it

	block block
	ready bool  // event is parsed and waits for Next
	event Event // parsed ahead by Buffered

	id        string // last event ID buffer
	blockID   string // last event ID as of the last empty line
	retry     time.Duration
	hasRetry  bool
	types     interned
	lineMax   int
	eventMax  int
	published published
}

// published is what the caller has been told of by Next, as Buffered parses ahead.
type published struct {
	id       string
	retry    time.Duration
	hasRetry bool
}

// NewDecoder returns a decoder that reads from r. It reads no more than it needs to complete an
// event, save for what comes in the same Read.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{r: r, lineMax: defaultLineLimit, eventMax: defaultEventLimit}
}

// Limit bounds the bytes of a line, without its end, and of an event's data. Zero or less means
// the default: 4 MiB for an event, and a line that carries one of that size in a single data
// field. A decoder holds at most about twice the sum in memory. Call it before the first Next.
func (d *Decoder) Limit(line, event int) {
	d.lineMax, d.eventMax = defaultLineLimit, defaultEventLimit
	if line > 0 {
		d.lineMax = line
	}
	if event > 0 {
		d.eventMax = event
	}
}

// Next returns the next event. Its Data is valid until the next call.
//
// The error is io.EOF at the end of the stream, where an event without its closing empty line is
// dropped, a [*LimitError], or wraps the reader's error. Every further call returns it again.
func (d *Decoder) Next() (Event, error) {
	for !d.ready && !d.parse() {
		if d.err != nil {
			d.publish()
			return Event{}, d.err
		}
		d.fill()
	}
	d.ready = false
	d.publish()
	return d.event, nil
}

// Events returns the remaining events. It ends at io.EOF, and after any other error, which it
// yields with a zero event. Each event's Data is valid until the next iteration.
func (d *Decoder) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			ev, err := d.Next()
			if err == io.EOF {
				return
			}
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Buffered reports whether a further whole event is in memory, so that Next will return it
// without a read. A server that passes events on need not flush while it holds. The event that
// Next returned last stays valid.
func (d *Decoder) Buffered() bool {
	if !d.ready {
		d.ready = d.parse()
	}
	return d.ready
}

// Retry returns the reconnection time that the stream has set, as of the last Next, and whether
// it has set one.
func (d *Decoder) Retry() (time.Duration, bool) {
	return d.published.retry, d.published.hasRetry
}

// LastEventID returns the last event ID as of the last Next: the one to send as Last-Event-ID
// when connecting again. A block without data counts, an incomplete one does not.
func (d *Decoder) LastEventID() string {
	return d.published.id
}

// Reset makes d read from r as a new decoder would, with the same limits. It keeps buffers.
func (d *Decoder) Reset(r io.Reader) {
	fresh := Decoder{r: r, lineMax: d.lineMax, eventMax: d.eventMax, types: d.types}
	if cap(d.buf) <= keepBytes {
		fresh.buf = d.buf
	}
	fresh.block.reuse(&d.block)
	*d = fresh
}

func (d *Decoder) publish() {
	d.published.retry, d.published.hasRetry = d.retry, d.hasRetry
	d.published.id = d.blockID
}
