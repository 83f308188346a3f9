package sse

import (
	"bytes"
	"slices"
	"time"
)

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

func (b *block) reuse(old *block) {
	old.own = false
	old.trim()
	b.joined, b.spare = old.joined, old.spare
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
func bomState(head []byte) (skip int, undecided bool) {
	if len(head) < len(bom) {
		return 0, bytes.HasPrefix(bom, head)
	}
	if bytes.HasPrefix(head, bom) {
		return len(bom), false
	}
	return 0, false
}
