package sse

import (
	"bytes"
	"slices"
	"time"
)

// block is what the lines since the last empty line have told.
type block struct {
	typ   string
	data  []byte // the only data line so far, within the read buffer, or joined
	lines int    // data lines
	retry time.Duration

	// joined holds the data once it cannot be part of the read buffer: lines put together, or a
	// line whose event goes on past the buffer's end. spare is the one that the event returned
	// last may still use.
	joined, spare []byte
	own           bool // data is joined
}

// add takes over a further data line. With the first one, data is part of the read buffer.
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

// detach copies data out of the read buffer, which is about to be moved.
func (b *block) detach() {
	if b.lines > 0 && !b.own {
		b.joined = append(b.joined[:0], b.data...)
		b.data, b.own = b.joined, true
	}
}

// take returns the data and begins the next block. The capacity of data ends with it: appending
// to it must not write into the read buffer.
func (b *block) take() []byte {
	data := slices.Clip(b.data)
	if data == nil {
		data = []byte{} // nil would be encoded as no data line at all
	}
	if b.own {
		b.joined, b.spare = b.spare, b.joined
	}
	b.typ, b.data, b.lines, b.retry, b.own = "", nil, 0, 0, false
	return data
}

// trim lets go of giant buffers, where no event returned uses them any more.
func (b *block) trim() {
	if cap(b.spare) > keepBytes {
		b.spare = nil
	}
	if !b.own && cap(b.joined) > keepBytes {
		b.joined = nil
	}
}

func (b *block) reuse(old *block) {
	old.own = false
	old.trim()
	b.joined, b.spare = old.joined, old.spare
}

// interned keeps the type names seen, so that an event does not allocate its own. A stream with
// ever new names gets them all the same, only not for nothing.
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

// bomState says how many bytes of a byte order mark head begins with, and whether more bytes
// are needed to know.
func bomState(head []byte) (skip int, undecided bool) {
	if len(head) < len(bom) {
		return 0, bytes.HasPrefix(bom, head)
	}
	if bytes.HasPrefix(head, bom) {
		return len(bom), false
	}
	return 0, false
}
