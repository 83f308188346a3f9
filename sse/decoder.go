package sse

import (
	"fmt"
	"io"
	"iter"
	"time"
)

const (
	// A stream of tokens is idle most of the time and needs only a small buffer for one event. The
	// buffer grows if a read fills it, and shrinks after several consecutive small reads.
	minBuffer  = 1 << 10
	fullBuffer = 16 << 10
	smallReads = 8

	defaultEventLimit = 4 << 20
	defaultLineLimit  = defaultEventLimit + len("data: ")
)

// LimitError reports that a stream exceeded a limit of its decoder.
type LimitError struct {
	Part  string // "line", "event", "event name" or "id"
	Limit int    // bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("decode event stream: %s of more than %d bytes", e.Part, e.Limit)
}

// Decoder reads events as specified by the WHATWG HTML standard. The stream may be split into
// chunks at any byte. A Decoder is not safe for concurrent use.
//
// It differs from the standard in one point: bytes that are not valid UTF-8 are returned unchanged
// instead of as U+FFFD. This affects neither lines nor fields, and encoding/json replaces them.
type Decoder struct {
	r   io.Reader
	err error // of r or of a limit; buffered events are returned first

	// buf[pos:end] is read and not yet parsed. buf[pos:lf] contains no LF and buf[pos:cr] no CR, so
	// that no byte is searched twice for either.
	buf              []byte
	pos, end, lf, cr int
	filled           bool // the last Read filled the buffer
	small            int  // number of consecutive Reads that would have fitted into minBuffer
	started          bool // a byte order mark is no longer expected
	skipLF           bool // the last line ended in CR: a following LF belongs to it

	block block
	ready bool  // event is parsed and not yet returned by Next
	event Event // parsed ahead by Buffered

	id        string // last event ID buffer
	blockID   string // last event ID as of the last empty line
	retry     time.Duration
	hasRetry  bool
	types     interned
	lineMax   int
	eventMax  int
	nameMax   int // of the value of an event or id field; 0 is no limit of its own
	published published
}

// published holds the state as of the last Next, because Buffered parses ahead.
type published struct {
	id       string
	retry    time.Duration
	hasRetry bool
}

// NewDecoder returns a decoder that reads from r. It reads no more than it needs to complete an
// event, except for data of the same Read.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{r: r, lineMax: defaultLineLimit, eventMax: defaultEventLimit}
}

// SetLimits sets the largest number of bytes of a line, without its end, and of the data of an
// event. Zero or less selects the default: 4 MiB for an event, and a line with one data field of
// that size. A decoder uses at most about twice the sum of both as memory. Call it before the first
// Next.
func (d *Decoder) SetLimits(line, event int) {
	d.lineMax, d.eventMax = defaultLineLimit, defaultEventLimit
	if line > 0 {
		d.lineMax = line
	}

	if event > 0 {
		d.eventMax = event
	}
}

// SetNameLimit sets the largest number of bytes of the value of an event or id field. Zero or less
// selects the default, the limit of a line. Call it before the first Next.
func (d *Decoder) SetNameLimit(bytes int) { d.nameMax = max(bytes, 0) }

// BufferSize returns the number of bytes that the buffers of the decoder use. It changes in Next,
// before a Read of the reader, which may call BufferSize to bound the memory of many decoders.
func (d *Decoder) BufferSize() int { return len(d.buf) + cap(d.block.joined) + cap(d.block.spare) }

// Next returns the next event. Its Data is valid until the next call.
//
// The error is io.EOF at the end of the stream, a [*LimitError], or wraps the error of the reader.
// An event without its closing empty line is dropped. Every further call returns the same error.
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

// Buffered reports whether another complete event is in memory, so that Next returns it without a
// read. A server that forwards events need not flush while Buffered is true. The event that Next
// returned last stays valid.
func (d *Decoder) Buffered() bool {
	if !d.ready {
		d.ready = d.parse()
	}

	return d.ready
}

// Take passes the bytes in memory after the last event to parse, which returns the number of those
// that it has handled: complete events without id and retry fields. parse is not called if a part
// of the next event has been parsed. A program can handle many small events of a known form
// together with Take, and the others with Next.
func (d *Decoder) Take(parse func(unread []byte) int) {
	if d.started && !d.ready && !d.skipLF && d.block.lines == 0 && d.block.typ == "" && d.block.retry == 0 && d.id == d.blockID {
		d.pos += parse(d.buf[d.pos:d.end])
	}
}

// Retry returns the reconnection time that the stream has set as of the last Next, and reports
// whether it has set one.
func (d *Decoder) Retry() (time.Duration, bool) {
	return d.published.retry, d.published.hasRetry
}

// LastEventID returns the last event ID as of the last Next. A client sends it as Last-Event-ID
// when it reconnects. A block without data sets it, an incomplete block does not.
func (d *Decoder) LastEventID() string {
	return d.published.id
}

func (d *Decoder) publish() {
	d.published.retry, d.published.hasRetry = d.retry, d.hasRetry
	d.published.id = d.blockID
}
