package jsonlimit

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Stream reads JSON from a reader value by value, for lists that are longer than memory. Names are
// compared and counted as by [Unmarshal].
type Stream struct {
	decoder *jsontext.Decoder
	window  window
	names   int // that Name has returned
}

// maxNames is the number of names that a decoder remembers, because none may occur twice.
const maxNames = 1000

// NewStream returns a Stream. A name or a value has at most that many bytes, and there are at most
// 1,000 names: others fail with [ErrExceeded].
func NewStream(r io.Reader, most int) *Stream {
	s := &Stream{window: window{reader: r, most: most, left: most}}
	s.decoder = jsontext.NewDecoder(&s.window, exact)
	return s
}

// Enter reads the begin of an object or array, which is '{' or '['.
func (s *Stream) Enter(begin byte) error {
	token, err := s.decoder.ReadToken()
	if err != nil {
		return s.failed(err)
	}

	if byte(token.Kind()) != begin {
		return fmt.Errorf("the JSON has %v in place of %q", token.Kind(), begin)
	}

	return nil
}

// More reports whether the object or array has another member. After the last one, it reads its
// end.
func (s *Stream) More() (bool, error) {
	s.window.left = s.window.most
	switch s.decoder.PeekKind() {
	case ']', '}', 0: // 0 is an error
		_, err := s.decoder.ReadToken()
		return false, s.failed(err)
	}

	return true, nil
}

// Name reads the name of a member of an object.
func (s *Stream) Name() (string, error) {
	if s.names++; s.names > maxNames {
		return "", ErrExceeded
	}

	token, err := s.decoder.ReadToken()
	if err != nil {
		return "", s.failed(err)
	}

	return token.String(), nil
}

// Value reads a value. It is valid until the next call.
func (s *Stream) Value() ([]byte, error) {
	raw, err := s.decoder.ReadValue()
	return raw, s.failed(err)
}

// failed returns the error of the decoder. It is that of the reader, if it has one.
func (s *Stream) failed(err error) error {
	switch {
	case err == nil || s.window.err != nil:
		return s.window.err
	case err == io.EOF: //nolint:errorlint // the decoder returns it unwrapped
		return io.ErrUnexpectedEOF
	}

	return describe(err)
}

// window is what a decoder may read for one value.
type window struct {
	reader     io.Reader
	most, left int   // bytes
	err        error // other than io.EOF
}

// Read implements io.Reader.
func (w *window) Read(p []byte) (int, error) {
	if w.left == 0 {
		w.err = ErrExceeded
		return 0, w.err
	}

	n, err := w.reader.Read(p[:min(len(p), w.left)])
	w.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}

	return n, err //nolint:wrapcheck // the decoder compares it with io.EOF
}
