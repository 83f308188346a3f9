package filesafe

import (
	"net/http"
	"strconv"
	"sync"
)

// chunk is the number of bytes that are collected before they are sent.
const chunk = 32 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunk+8<<10); return &b }}

// listing writes the JSON of a listing in chunks. A listing that fits into one chunk has a
// Content-Length.
type listing struct {
	to    *body
	buf   *[]byte
	clock clock
	any   bool // entries were added
	sent  bool // the header is written
}

func newListing(to *body, name string) *listing {
	l := &listing{to: to, buf: chunks.Get().(*[]byte)}
	if name == "." {
		name = ""
	}
	*l.buf = append(appendString(append((*l.buf)[:0], `{"path":`...), name), `,"entries":[`...)
	return l
}

// add returns false if the client has disconnected.
func (l *listing) add(e *Entry) bool {
	b := *l.buf
	if l.any {
		b = append(b, ',')
	}
	l.any = true
	b = e.appendJSON(b, &l.clock)
	*l.buf = b
	return len(b) < chunk || l.flush()
}

func (l *listing) flush() bool {
	if !l.sent {
		l.header()
	}
	_, err := l.to.Write(*l.buf)
	*l.buf = (*l.buf)[:0]
	return err == nil
}

func (l *listing) header() {
	l.sent = true
	h := l.to.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	l.to.w.WriteHeader(http.StatusOK)
}

func (l *listing) end() bool {
	*l.buf = append(*l.buf, "]}\n"...)
	if !l.sent {
		l.to.w.Header().Set("Content-Length", strconv.Itoa(len(*l.buf)))
	}
	ok := l.flush()
	chunks.Put(l.buf)
	if ok {
		l.to.end()
	}
	return ok
}
