package filesafe

import (
	"net/http"
	"strconv"
	"sync"
)

// chunk is how much of a listing is put together before it is sent, in bytes.
const chunk = 32 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunk+8<<10); return &b }}

// listing writes the JSON of a listing piece by piece. What fits in one piece is sent with its length.
type listing struct {
	to    *pace
	buf   *[]byte
	clock clock
	any   bool // entries were added
	sent  bool // the header is out
}

func newListing(to *pace, name string) *listing {
	l := &listing{to: to, buf: chunks.Get().(*[]byte)}
	if name == "." {
		name = ""
	}
	*l.buf = append(appendString(append((*l.buf)[:0], `{"path":`...), name), `,"entries":[`...)
	return l
}

// add returns false when the client is gone.
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
