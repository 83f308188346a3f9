package filesafe

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"net/http"
	"os"
	"time"

	"github.com/seed93082962/agenthost/internal/leaf/deadline"
)

const (
	// sendfileChunk is the number of bytes per deadline if a write that exceeds its deadline returns
	// the number of bytes written. This is the case for sendfile(2) on a TCP connection, but neither
	// over TLS nor through a ResponseWriter whose ReadFrom does not reach the connection. There a
	// client has to read [deadline.Chunk], or 1 MiB behind such a wrapper, within the timeout.
	sendfileChunk = 1 << 20

	// stallPeriods is the number of deadlines in one timeout of sendfile(2).
	stallPeriods = 8

	// small is the size in bytes up to which one read and one write take less time than sendfile(2),
	// for which net/http needs another read and write.
	small = 16 << 10

	// chunk is the number of bytes of a listing that are collected before they are sent.
	chunk = 32 << 10
)

// body writes the body of a response. The client must not stall.
type body struct {
	deadline.Writer
	w      http.ResponseWriter
	r      *http.Request
	text   bytes.Buffer // of a listing, not yet sent
	failed error        // of reading the content
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

// stream responds with the text that add appends for each entry, and last. It has written nothing
// when it returns an error. If the client has disconnected or the directory cannot be read further,
// it panics with [http.ErrAbortHandler]: the response must not be well-formed.
func (b *body) stream(mediaType string, entries iter.Seq2[FileEntry, error], last string, add func(*FileEntry) error) error {
	sent := false
	header := func() {
		if !sent {
			b.w.Header().Set("Content-Type", mediaType)
			b.w.Header().Set("X-Content-Type-Options", "nosniff")
			b.w.WriteHeader(http.StatusOK)
		}

		sent = true
	}
	flush := func() {
		header()
		if _, err := b.Write(b.text.Bytes()); err != nil {
			panic(http.ErrAbortHandler)
		}

		b.text.Reset()
	}
	for e, err := range entries {
		if err == nil && b.r.Method == http.MethodHead {
			break
		}

		if err == nil {
			err = add(&e)
		}

		if err != nil && !sent && b.r.Context().Err() == nil {
			return err
		} else if err != nil {
			panic(http.ErrAbortHandler)
		}

		if b.text.Len() >= chunk {
			flush()
		}
	}

	if b.r.Method == http.MethodHead { // without the length, which would require the whole listing
		header()
		return nil
	}

	b.text.WriteString(last)
	flush()
	b.end()
	return nil
}

// copy sends length bytes of content. Data that is appended to a file is not sent. If the file
// becomes shorter or the client disconnects, net/http closes the connection because of the length.
func (b *body) copy(content io.Reader, length int64) {
	var err error
	f, isFile := content.(*os.File)
	if isFile && length > small {
		err = b.copyFile(f, length)
	} else {
		err = b.copyStream(content, length)
	}

	if err == nil {
		b.end()
	}
}

// copyStream sends length bytes of a reader.
func (b *body) copyStream(content io.Reader, length int64) error {
	buf := make([]byte, min(small, length))
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
//
// A write that ends with its deadline may have sent data just after its start. So the deadlines of
// sendfile(2) are a fraction of the timeout, and the client has stalled when a whole timeout has
// passed without data.
func (b *body) copyFile(f *os.File, length int64) error {
	chunk := int64(deadline.Chunk)
	_, direct := b.w.(io.ReaderFrom)
	if direct = direct && b.r.TLS == nil && b.r.ProtoMajor == 1; direct {
		chunk = sendfileChunk
	}

	progress := time.Now()
	part := &io.LimitedReader{R: f} // no other wrapper of f: net/http calls sendfile(2) only for this
	for length > 0 {
		period := b.Timeout()
		if direct {
			period /= stallPeriods
		}

		_ = b.ExtendBy(period) // an error of the connection is also one of the write
		if b.Timeout() == 0 {
			chunk = length
		}

		part.N = min(chunk, length)
		sent, err := io.Copy(b.w, part)
		length -= sent
		if sent > 0 {
			progress = time.Now()
		}

		switch {
		case err == nil && sent == 0:
			return io.ErrUnexpectedEOF // the file became shorter
		case err == nil:
		case !direct || time.Since(progress) >= b.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) || b.r.Context().Err() != nil:
			// net/http cancels the context when it cannot write its own buffers, whose contents
			// are lost.
			return err
		}
	}

	return nil
}
