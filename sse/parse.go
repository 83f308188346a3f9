package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// parse reads lines from the buffer up to the end of an event, and reports whether it found one.
func (d *Decoder) parse() bool {
	if !d.started {
		skip, undecided := bomState(d.buf[d.pos:d.end])
		if undecided {
			return false
		}

		d.pos += skip
		d.started = true
	}

	for {
		line, ok := d.line()
		if !ok {
			return false
		}

		if len(line) > 0 {
			if !d.field(line) {
				return false
			}

			continue
		}

		if d.dispatch() {
			return true
		}
	}
}

// line returns the next line of the buffer without its end. After a CR it does not wait for an LF:
// the events of a server that ends lines with CR must not be delayed.
func (d *Decoder) line() ([]byte, bool) {
	buf, pos := d.buf[:d.end], d.pos
	if d.skipLF && pos < len(buf) {
		d.skipLF = false
		if buf[pos] == '\n' {
			pos++
			d.pos = pos
		}
	}

	if pos < len(buf) && buf[pos] == '\n' {
		d.pos = pos + 1
		return buf[pos:pos], true
	}

	lf := max(d.lf, pos)
	if lf < len(buf) && buf[lf] != '\n' {
		if i := bytes.IndexByte(buf[lf:], '\n'); i >= 0 {
			lf += i
		} else {
			lf = len(buf)
		}
	}

	d.lf = lf
	cr := max(d.cr, pos)
	if cr < len(buf) && buf[cr] != '\r' {
		if i := bytes.IndexByte(buf[cr:], '\r'); i >= 0 {
			cr += i
		} else {
			cr = len(buf)
		}
	}

	d.cr = cr

	stop := min(cr, lf)
	if stop-pos > d.lineMax {
		d.fail(&LimitError{Part: "line", Limit: d.lineMax})
		return nil, false
	}

	if stop == len(buf) {
		return nil, false
	}

	d.pos = stop + 1
	if stop == cr && stop < lf {
		if d.pos == len(buf) {
			d.skipLF = true
		} else if d.pos == lf {
			d.pos++
		}
	}

	return buf[pos:stop], true
}

// field interprets a line that is not empty. It reports false if a limit is exceeded.
func (d *Decoder) field(line []byte) bool {
	// The two fields of almost every line are compared without a search for the colon.
	if len(line) > 5 && string(line[:5]) == "data:" {
		return d.data(trimSpace(line[5:]))
	}

	if len(line) > 6 && string(line[:6]) == "event:" {
		return d.name(trimSpace(line[6:]))
	}

	name, value, _ := bytes.Cut(line, []byte{':'})
	value = trimSpace(value)
	switch string(name) {
	case "data":
		return d.data(value)
	case "event":
		return d.name(value)
	case "id":
		if d.tooLong("id", value) {
			return false
		}

		if string(value) != d.id && bytes.IndexByte(value, 0) < 0 {
			d.id = string(value)
		}
	case "retry":
		if retry, ok := parseRetry(value); ok {
			d.retry, d.hasRetry = retry, true
			d.block.retry = retry
		}
	}

	return true
}

func (d *Decoder) name(value []byte) bool {
	if d.tooLong("event name", value) {
		return false
	}

	d.block.typ = d.types.get(value)
	return true
}

// tooLong reports whether the value of an event or id field exceeds its limit, and ends the stream
// if it does.
func (d *Decoder) tooLong(part string, value []byte) bool {
	if d.nameMax == 0 || len(value) <= d.nameMax {
		return false
	}

	d.fail(&LimitError{Part: part, Limit: d.nameMax})
	return true
}

func (d *Decoder) data(value []byte) bool {
	size := len(value)
	if d.block.lines > 0 {
		size += len(d.block.data) + 1
	}

	if size > d.eventMax {
		d.fail(&LimitError{Part: "event", Limit: d.eventMax})
		return false
	}

	d.block.add(value)
	return true
}

// dispatch ends the block and reports whether it is an event. A block without data is not an event,
// but sets the last event ID.
func (d *Decoder) dispatch() bool {
	d.blockID = d.id
	if d.block.lines == 0 {
		d.block.typ, d.block.retry = "", 0
		return false
	}

	d.event.Type, d.event.Retry = d.block.typ, d.block.retry
	d.event.ID = d.id
	d.event.Data = d.block.take()
	return true
}

// fail ends the stream because of a limit and discards the buffer.
func (d *Decoder) fail(err error) {
	d.err = err
	d.pos = 0
	d.end = 0
	d.lf = 0
	d.cr = 0
	d.block = block{}
}

var errCount = errors.New("reader returned an impossible count")

// fill makes room and reads once. Events that were returned before are no longer valid.
func (d *Decoder) fill() {
	d.block.detach()
	d.block.trim()
	d.makeRoom()
	for range 100 { // like bufio for a reader that returns nothing
		n, err := d.r.Read(d.buf[d.end:])
		if n < 0 || n > len(d.buf)-d.end {
			d.err = fmt.Errorf("read event stream: %w", errCount)
			return
		}

		d.end += n
		d.filled = d.end == len(d.buf)
		if d.small++; n >= minBuffer {
			d.small = 0
		}

		if err == io.EOF {
			d.err = err
		} else if err != nil {
			d.err = fmt.Errorf("read event stream: %w", err)
		}

		if n > 0 || err != nil {
			return
		}
	}

	d.err = fmt.Errorf("read event stream: %w", io.ErrNoProgress)
}

// makeRoom moves unparsed bytes to the front of the buffer. A full buffer is replaced by a larger
// one. A buffer that is too large for the current data, for example after a large line, is replaced
// by a small one before a possibly long wait.
func (d *Decoder) makeRoom() {
	rest := d.buf[d.pos:d.end]
	switch size := len(d.buf); {
	case size == 0:
		d.buf = make([]byte, minBuffer)
	case d.filled && size < fullBuffer:
		d.buf = make([]byte, min(4*size, fullBuffer)) // a short response needs no full one
	case len(rest) == size:
		d.buf = make([]byte, min(2*size, d.lineMax+minBuffer))
	case len(rest) <= minBuffer/2 && (size > keepBytes || size > minBuffer && d.small >= smallReads):
		d.buf = make([]byte, minBuffer)
	case d.pos == 0: // a long line in small pieces is not moved for each of them
		return
	}

	copy(d.buf, rest)
	d.lf, d.cr = max(0, d.lf-d.pos), max(0, d.cr-d.pos)
	d.pos, d.end = 0, len(rest)
}

func trimSpace(value []byte) []byte {
	if len(value) > 0 && value[0] == ' ' {
		return value[1:]
	}

	return value
}

// parseRetry parses milliseconds. Values that exceed a Duration become the largest one.
func parseRetry(value []byte) (time.Duration, bool) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	var ms int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}

		if ms < most {
			ms = min(most, ms*10+int64(c-'0'))
		}
	}

	return time.Duration(ms) * time.Millisecond, len(value) > 0
}

// block holds the fields of the lines since the last empty line.
type block struct {
	typ   string
	data  []byte // the only data line so far, within the read buffer, or joined
	lines int    // number of data lines
	retry time.Duration

	// joined holds the data if it cannot be part of the read buffer: several lines, or a line whose
	// event continues after the end of the buffer. spare is the buffer that the previously returned
	// event may still use.
	joined, spare []byte
	own           bool // data is joined
}

// add adds a data line. The data of a single line stays part of the read buffer.
func (b *block) add(value []byte) {
	if b.lines++; b.lines == 1 {
		b.data = value
		return
	}

	b.detach()
	b.joined = append(b.joined, '\n')
	b.joined = append(b.joined, value...)
	b.data = b.joined
}

// detach copies data out of the read buffer before the buffer is moved.
func (b *block) detach() {
	if b.lines > 0 && !b.own {
		b.joined = append(b.joined[:0], b.data...)
		b.data, b.own = b.joined, true
	}
}

// take returns the data and starts the next block. The capacity of the data is clipped, so that an
// append does not write into the read buffer.
func (b *block) take() []byte {
	data := slices.Clip(b.data)
	if data == nil {
		data = []byte{} // nil would be encoded as a missing data line
	}

	if b.own {
		b.joined, b.spare = b.spare, b.joined
	}

	b.typ = ""
	b.data = nil
	b.lines = 0
	b.retry = 0
	b.own = false
	return data
}

// trim releases large buffers that no returned event uses.
func (b *block) trim() {
	if cap(b.spare) > keepBytes {
		b.spare = nil
	}

	if !b.own && cap(b.joined) > keepBytes {
		b.joined = nil
	}
}

// interned holds the type names of earlier events, so that an event does not allocate its name. The
// number of names is bounded.
type interned struct {
	last string
	all  map[string]string
}

const (
	maxInterned    = 64
	maxInternedLen = 64
)

func (t *interned) get(name []byte) string {
	if string(name) == t.last {
		return t.last
	}

	s, ok := t.all[string(name)]
	if !ok {
		s = string(name)
		if len(s) > maxInternedLen {
			return s
		}

		if t.all == nil {
			t.all = make(map[string]string)
		}

		if len(t.all) < maxInterned {
			t.all[s] = s
		}
	}

	t.last = s
	return s
}

var bom = []byte("\xef\xbb\xbf")

// bomState returns how many bytes of a byte order mark head starts with, and reports whether more
// bytes are needed to decide.
func bomState(head []byte) (int, bool) {
	if len(head) < len(bom) {
		return 0, bytes.HasPrefix(bom, head)
	}

	if bytes.HasPrefix(head, bom) {
		return len(bom), false
	}

	return 0, false
}
