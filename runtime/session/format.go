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

// Open of [Files] returns these errors for a transcript that it cannot read.
var (
	ErrDamaged = errors.New("transcript is damaged")
	ErrNewer   = errors.New("transcript is in the format of a newer version")
)

const (
	formatName    = "agenthost session"
	formatVersion = 1

	// maxLine limits a line, in bytes with its end. It is large enough for the largest response of
	// a model, even if JSON encodes each byte as two, as it does line ends and quotes.
	maxLine = 2*model.MaxResponseBytes + 1<<20

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

// content is the content of a transcript file.
type content struct {
	header   header
	messages []model.Message
	end      int64 // of the last complete message

	missingNewline bool // the last message has no line end
}

// encodeLine writes a value as JSON with a line end.
func encodeLine(to *bytes.Buffer, v any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false) // each < or & of source code and HTML would take six bytes
	return e.Encode(v)
}

// encodeMessage writes a message and a line end. It returns an error if the line is too long for
// readTranscript.
func encodeMessage(to *bytes.Buffer, m *model.Message) error {
	before := to.Len()
	if err := encodeLine(to, m); err != nil {
		return err
	}
	if n := to.Len() - before; n > maxLine {
		return fmt.Errorf("%d bytes exceed the limit of %d", n, maxLine)
	}
	return nil
}

// readTranscript reads a transcript of about size bytes. It returns an empty header if the header
// is incomplete.
func readTranscript(r io.Reader, size int64) (content, error) {
	var c content
	l := lineReader{from: bufio.NewReaderSize(r, int(min(size+1, readBuffer)))}
	for n := 1; ; n++ {
		line, err := l.next()
		if err != nil {
			return c, fmt.Errorf("line %d: %w", n, err)
		}
		complete := bytes.HasSuffix(line, []byte{'\n'})
		switch {
		case len(line) == 0 || n == 1 && !complete:
			return c, nil
		case n == 1:
			err = c.header.decode(line)
		default:
			err = c.appendMessage(line)
		}
		if err != nil && !complete { // an interrupted append
			return c, nil
		}
		if err != nil {
			return c, fmt.Errorf("line %d: %w", n, err)
		}
		c.end += int64(len(line))
		c.missingNewline = !complete
	}
}

func (h *header) decode(line []byte) error {
	// Later versions may change the other fields, so these two are decoded first.
	var v struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	switch err := json.Unmarshal(line, &v); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case v.Format != formatName || v.Version < 1:
		return fmt.Errorf("%w: no session header", ErrDamaged)
	case v.Version > formatVersion:
		return fmt.Errorf("%w: version %d, supported up to %d", ErrNewer, v.Version, formatVersion)
	}
	if err := json.Unmarshal(line, h); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

func (c *content) appendMessage(line []byte) error {
	var m model.Message
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if m.Role != model.RoleUser && m.Role != model.RoleAssistant {
		return fmt.Errorf("%w: not a message", ErrDamaged)
	}
	c.messages = append(c.messages, m)
	return nil
}

// lineReader reads lines of any length up to maxLine.
type lineReader struct {
	from *bufio.Reader
	long []byte // the current line if it is longer than the buffer of from
}

// next returns the next line with its end. The last line may have no end, and at the end of the
// input the line is empty. The line is valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	part, err := l.from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = l.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(l.long)+len(part) > maxLine {
				return nil, fmt.Errorf("%w: longer than %d bytes", ErrDamaged, maxLine)
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
