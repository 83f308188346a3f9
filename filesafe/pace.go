package filesafe

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/seed93082962/agenthost/internal/deadline"
)

// sendfileChunk is the number of bytes per deadline if a write that exceeds its deadline returns
// the number of bytes written. This is the case for sendfile(2) on a TCP connection, but neither
// over TLS nor through a ResponseWriter whose ReadFrom does not reach the connection. There a
// client has to read [deadline.Chunk], or 1 MiB behind such a wrapper, within the timeout.
const sendfileChunk = 1 << 20

// body writes the body of a response. The client must not stall.
type body struct {
	deadline.Writer
	w      http.ResponseWriter
	r      *http.Request
	failed error // of reading the content
}

func newBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) *body {
	return &body{Writer: deadline.NewWriter(w, timeout), w: w, r: r}
}

// end flushes the buffered data and removes the deadline.
func (b *body) end() {
	if b.Timeout() > 0 && b.Flush() == nil {
		_ = b.Clear() // it was set before
	}
}

// copyStream sends length bytes of a reader.
func (b *body) copyStream(content io.Reader, length int64) error {
	buf := smallBodies.Get().(*[small]byte)
	defer smallBodies.Put(buf)
	for length > 0 {
		n, err := io.ReadFull(content, buf[:min(small, length)])
		if _, err := b.Write(buf[:n]); err != nil {
			return err
		}
		if err != nil {
			b.failed = err
			return err
		}
		length -= int64(n)
	}
	return nil
}

// copyFile sends length bytes of a file.
func (b *body) copyFile(f *os.File, length int64) error {
	chunk := int64(deadline.Chunk)
	_, direct := b.w.(io.ReaderFrom)
	if direct = direct && b.r.TLS == nil && b.r.ProtoMajor == 1; direct {
		chunk = sendfileChunk
	}
	part := &io.LimitedReader{R: f} // no other wrapper of f: net/http calls sendfile(2) only for this
	for length > 0 {
		_ = b.Extend() // an error of the connection is also one of the write
		if b.Timeout() == 0 {
			chunk = length
		}
		part.N = min(chunk, length)
		sent, err := io.Copy(b.w, part)
		length -= sent
		switch {
		case err == nil && sent == 0:
			return io.ErrUnexpectedEOF // the file became shorter
		case err == nil:
		case !direct || sent == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || b.r.Context().Err() != nil:
			// net/http cancels the context when it cannot write its own buffers, whose contents
			// are lost.
			return err
		}
	}
	return nil
}
