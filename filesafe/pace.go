package filesafe

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// stalled is how long a client may take nothing of an answer, where nobody says otherwise.
const stalled = 30 * time.Second

// Pieces of a file, in bytes. Of a write over TLS, or through a writer that does not lead to sendfile(2), it is not known
// how far it came when its time is over: the piece must have gone out by then. 64 KiB in 30 s are 2 KiB a second; through
// a wrapper whose ReadFrom does not lead to the connection it is filePiece, 35 KiB a second.
const (
	filePiece  = 1 << 20
	otherPiece = 64 << 10
)

// pace writes an answer for as long as the client takes some of it: each write has a deadline of its own.
type pace struct {
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController // nil: without end
	timeout time.Duration
}

// newPace takes 0 for the usual time, and less for none.
func newPace(w http.ResponseWriter, r *http.Request, timeout time.Duration) *pace {
	p := &pace{w: w, r: r, timeout: cmp.Or(timeout, stalled)}
	if p.timeout > 0 {
		p.control = http.NewResponseController(w)
	}
	return p
}

// extend lets the client begin anew. Not every writer has deadlines; one that has none is not a connection.
func (p *pace) extend() {
	if p.control != nil && p.control.SetWriteDeadline(time.Now().Add(p.timeout)) != nil {
		p.control = nil
	}
}

func (p *pace) Write(b []byte) (int, error) {
	p.extend()
	return p.w.Write(b) //nolint:gosec // the bytes of a file, which escaping would change, or JSON of ours
}

// end lifts the deadline for what comes next on the connection. Before that it sends what is still held back.
func (p *pace) end() {
	if p.control != nil && p.control.Flush() == nil {
		_ = p.control.SetWriteDeadline(time.Time{}) // it was set just now
	}
}

// copyFile sends length bytes of a file.
func (p *pace) copyFile(f *os.File, length int64) error {
	piece := int64(otherPiece)
	_, direct := p.w.(io.ReaderFrom)
	if direct = direct && p.r.TLS == nil && p.r.ProtoMajor == 1; direct {
		piece = filePiece
	}
	if p.extend(); p.control == nil {
		piece = length
	}
	part := &io.LimitedReader{R: f} // and nothing else around f: sendfile(2) depends on it
	for length > 0 {
		part.N = min(piece, length)
		sent, err := io.Copy(p.w, part)
		length -= sent
		switch {
		case err == nil && sent == 0:
			return io.ErrUnexpectedEOF // the file has shrunk
		case err == nil:
		case !direct || sent == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || p.r.Context().Err() != nil:
			// net/http ends the context when it could not write what is in its own buffers, of which
			// nothing can be taken back.
			return err
		}
		if length > 0 {
			p.extend()
		}
	}
	return nil
}
