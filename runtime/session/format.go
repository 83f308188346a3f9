package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
)

// Open of [Files] returns these errors for a transcript that it cannot read.
var (
	errDamaged = errors.New("transcript is damaged")
	errNewer   = errors.New("transcript is in the format of a newer version")
)

const (
	formatName    = "agenthost session"
	formatVersion = 2 // 1 had no events and no compactions

	// maxLine limits a line, in bytes with its end. It is large enough for the largest response of
	// a model, even if JSON encodes each byte as two, as it does line ends and quotes.
	maxLine = 2*collect.MaxTotal + 1<<20

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
	Dropped int64     `json:"dropped,omitempty"` // the number of former entries that are not in the file
}

// messageLine is the line of a message.
type messageLine struct {
	*model.Message

	Time time.Time `json:"time,omitzero"`
	Run  string    `json:"run,omitempty"` // a former version ignores it
}

// eventLine, compactionLine and waitingLine are the other lines. Their first fields identify them.
type (
	eventLine struct {
		Event json.RawMessage `json:"event"`
		Time  time.Time       `json:"time"`
		Run   string          `json:"run,omitempty"`
	}
	compactionLine struct {
		Compacted []model.Message `json:"compacted"`
		Time      time.Time       `json:"time"`
		Run       string          `json:"run,omitempty"`
		Waiting   json.RawMessage `json:"waiting,omitempty"` // which the compaction does not change
	}
	waitingLine struct {
		Waiting json.RawMessage `json:"waiting"` // null if the session waits no longer
		Time    time.Time       `json:"time"`
		Run     string          `json:"run,omitempty"`
	}
)

var (
	eventPrefix      = []byte(`{"event":`)
	compactionPrefix = []byte(`{"compacted":`)
	waitingPrefix    = []byte(`{"waiting":`)
)

// content is the content of a transcript file.
type content struct {
	header   header
	messages []model.Message // since the last compaction, and those that it left
	waiting  json.RawMessage // nil if the session does not wait
	events   int             // bytes of the events since then
	entries  int64           // the number of all entries
	end      int64           // of the last complete line

	missingNewline bool // the last line has no line end
}

// encoded returns a value as JSON with a line end. It returns an error if the line is too long for
// readTranscript.
func encoded(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // each < or & of source code and HTML would take six bytes
	if err := e.Encode(v); err != nil {
		return nil, err
	}

	if b.Len() > maxLine {
		return nil, fmt.Errorf("%d bytes exceed the limit of %d", b.Len(), maxLine)
	}

	return b.Bytes(), nil
}

// findCompaction returns the number of the line of the last compaction, or 0. The messages before
// it are not decoded.
func findCompaction(r io.Reader, size int64) (int, error) {
	l := newLineReader(r, size)
	var line int
	for n := 1; ; n++ {
		text, err := l.next()
		if err != nil {
			return 0, fmt.Errorf("line %d: %w", n, err)
		}

		if len(text) == 0 {
			return line, nil
		}

		if bytes.HasPrefix(text, compactionPrefix) && bytes.HasSuffix(text, []byte{'\n'}) {
			line = n
		}
	}
}

// readTranscript reads a transcript of about size bytes, whose last compaction is in a line.
func readTranscript(r io.Reader, size int64, compaction int) (content, error) {
	var c content
	l := newLineReader(r, size)
	for n := 1; ; n++ {
		line, err := l.next()
		if err != nil {
			return c, fmt.Errorf("line %d: %w", n, err)
		}

		complete := bytes.HasSuffix(line, []byte{'\n'})
		switch {
		case len(line) == 0:
			return c, nil
		case n == 1:
			err = c.header.decode(line)
		case n < compaction:
		default:
			err = c.add(line)
		}

		if err != nil && !complete { // an interrupted append
			return c, nil
		}

		if err != nil {
			return c, fmt.Errorf("line %d: %w", n, err)
		}

		c.end += int64(len(line))
		if n > 1 && !bytes.HasPrefix(line, waitingPrefix) {
			c.entries++
		}

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
		return fmt.Errorf("%w: %w", errDamaged, err)
	case v.Format != formatName || v.Version < 1:
		return fmt.Errorf("%w: no session header", errDamaged)
	case v.Version > formatVersion:
		return fmt.Errorf("%w: version %d, supported up to %d", errNewer, v.Version, formatVersion)
	}

	if err := json.Unmarshal(line, h); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}

	return nil
}

// add adds a line after the header.
func (c *content) add(line []byte) error {
	switch {
	case bytes.HasPrefix(line, eventPrefix):
		if !json.Valid(line) {
			return fmt.Errorf("%w: not an event", errDamaged)
		}

		c.events += len(line)
		return nil
	case bytes.HasPrefix(line, compactionPrefix):
		var to compactionLine
		if err := json.Unmarshal(line, &to); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}

		c.messages, c.events, c.waiting = to.Compacted, 0, to.Waiting
		return nil
	case bytes.HasPrefix(line, waitingPrefix):
		var to waitingLine
		if err := json.Unmarshal(line, &to); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}

		if c.waiting = to.Waiting; string(to.Waiting) == "null" {
			c.waiting = nil
		}

		return nil
	}

	var m model.Message
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}

	if m.Role != model.RoleUser && m.Role != model.RoleAssistant {
		return fmt.Errorf("%w: not a message", errDamaged)
	}

	c.messages = append(c.messages, m)
	return nil
}

// lineReader reads lines of any length up to maxLine.
type lineReader struct {
	from *bufio.Reader
	long []byte // the current line if it is longer than the buffer of from
}

func newLineReader(r io.Reader, size int64) *lineReader {
	return &lineReader{from: bufio.NewReaderSize(r, int(min(size+1, readBuffer)))}
}

// next returns the next line with its end. The last line may have no end, and at the end of the
// input the line is empty. The line is valid until the next call.
func (l *lineReader) next() ([]byte, error) {
	part, err := l.from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = l.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(l.long)+len(part) > maxLine {
				return nil, fmt.Errorf("%w: longer than %d bytes", errDamaged, maxLine)
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
