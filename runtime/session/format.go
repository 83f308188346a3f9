package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// What [Files] answers to a transcript that it cannot read.
var (
	ErrDamaged = errors.New("transcript is damaged")
	ErrNewer   = errors.New("transcript is in the format of a newer version")
)

const (
	formatName    = "agenthost session"
	formatVersion = 1

	// maxLine bounds a line, in bytes with its end: the largest answer that a model may give,
	// even if JSON writes each byte of it as two, as it does line ends and quotes.
	maxLine = 2*model.MaxAnswerBytes + 1<<20

	readBuffer = 64 << 10
)

// header is the first line of a transcript.
type header struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	ID      string    `json:"id"`
	Agent   string    `json:"agent"`
	CWD     string    `json:"cwd"`
	Created time.Time `json:"created"`
}

// content is what was read of a transcript.
type content struct {
	header   header
	messages []model.Message
	end      int64 // of the last message; what comes after it was not written whole
	unended  bool  // the last message has no line end
}

// encode writes a value and a line end.
func encode(to *bytes.Buffer, v any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false) // programs and pages are mostly < and &, which would take six bytes
	return e.Encode(v)
}

// encodeMessage writes a message and a line end, or answers an error if that is more than read takes.
func encodeMessage(to *bytes.Buffer, m *model.Message) error {
	before := to.Len()
	if err := encode(to, m); err != nil {
		return err
	}
	if n := to.Len() - before; n > maxLine {
		return fmt.Errorf("%d bytes are over the limit of %d", n, maxLine)
	}
	return nil
}

// read reads a transcript of about size bytes. It leaves the header empty where even that was not
// written whole.
func read(r io.Reader, size int64) (content, error) {
	var c content
	l := lines{from: bufio.NewReaderSize(r, int(min(size+1, readBuffer)))}
	for n := 1; ; n++ {
		line, err := l.next()
		if err != nil {
			return c, fmt.Errorf("line %d: %w", n, err)
		}
		whole := bytes.HasSuffix(line, []byte{'\n'})
		switch {
		case len(line) == 0 || n == 1 && !whole:
			return c, nil
		case n == 1:
			err = c.header.decode(line)
		default:
			err = c.add(line)
		}
		if err != nil && !whole { // an append broke off here
			return c, nil
		}
		if err != nil {
			return c, fmt.Errorf("line %d: %w", n, err)
		}
		c.end += int64(len(line))
		c.unended = !whole
	}
}

func (h *header) decode(line []byte) error {
	// What a later version has made of the other fields is not known: these two come first.
	var v struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	switch err := json.Unmarshal(line, &v); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case v.Format != formatName || v.Version < 1:
		return fmt.Errorf("%w: it does not begin with the header of one", ErrDamaged)
	case v.Version > formatVersion:
		return fmt.Errorf("%w: %d, this one reads up to %d", ErrNewer, v.Version, formatVersion)
	}
	if err := json.Unmarshal(line, h); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

func (c *content) add(line []byte) error {
	var m model.Message
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if m.Role != model.RoleUser && m.Role != model.RoleAssistant {
		return fmt.Errorf("%w: it is no message", ErrDamaged)
	}
	c.messages = append(c.messages, m)
	return nil
}

// lines splits what it reads at line ends.
type lines struct {
	from *bufio.Reader
	long []byte // a line that is longer than the reader's buffer
}

// next returns a line with its end, or what comes after the last one: nothing when all is read.
// It is good until the next call.
func (l *lines) next() ([]byte, error) {
	part, err := l.from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = l.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(l.long)+len(part) > maxLine {
				return nil, fmt.Errorf("%w: it is longer than %d bytes", ErrDamaged, maxLine)
			}
			l.long = append(l.long, part...)
			part, err = l.from.ReadSlice('\n')
		}
		l.long = append(l.long, part...)
		part = l.long
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return part, nil
}
