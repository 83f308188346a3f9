// Package frame is the protocol between a host of custom tools and its workers: frames on the
// standard input and output of a worker.
package frame

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// A frame is
//
//	4 bytes  length of what follows, big endian
//	1 byte   kind
//	4 bytes  length of the head
//	head     JSON
//	body     bytes: a source, bytecode, an input, a result, the body of a response
const (
	KindSetup      = 'S' // to the worker, first: Limits
	KindUnconfined = 'U' // a text: why the kernel does not confine the worker
	KindBuild      = 'b' // to the worker: Build, a source. Response: built.
	KindName       = 'n' // to the worker: Build, a source, which is parsed and not run. Response: built, with the name.
	KindBuilt      = 'B' // Built, bytecode
	KindProgram    = 'p' // to the worker: Program, bytecode. Stored for calls.
	KindWarm       = 'w' // to the worker: Warm. An engine is made for the next call. Response: warmed.
	KindWarmed     = 'W' // Warmed
	KindCall       = 'c' // to the worker: Call, the input. Uses the engine. Response: result.
	KindResult     = 'R' // Result, a text
	KindStop       = 's' // to the worker: Stop. The call ends with a result.
	KindLog        = 'L' // Log, a text
	KindFetch      = 'F' // Fetch, a body
	KindGiveUp     = 'G' // Fetch: the script no longer needs the response
	KindFetched    = 'f' // to the worker: Fetched, a body
)

// maxFrame limits a frame. It is larger than the largest body of each kind.
const maxFrame = 16 << 20

const frameOverhead = 1 + 4

// ErrMalformed is the error of bytes that are not a frame, or of a frame that is not expected.
var ErrMalformed = errors.New("malformed frame")

// Build is the head of a source.
type Build struct {
	Call uint64 `json:"call"`
	File string `json:"file"`
}

// Built is the head of a compiled file: its definition, or an error.
type Built struct {
	Error       string          `json:"error,omitempty"` // for the operator; then the other fields are empty
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Map         SourceMap       `json:"map,omitzero"`
}

// Program is the head of a compiled file.
type Program struct {
	ID   string    `json:"id"`
	File string    `json:"file"`
	Map  SourceMap `json:"map,omitzero"`
}

// SourceMap has the used parts of a source map of version 3.
type SourceMap struct {
	Mappings string `json:"mappings"`
	File     int    `json:"file"` // index of the tool's file in the sources
}

// Warm requests an engine for the next call of a program.
type Warm struct {
	Call    uint64 `json:"call"`
	Program string `json:"program"`
	Evict   string `json:"evict,omitempty"` // a program whose engine is closed first
}

// Warmed is the response to Warm.
type Warmed struct {
	Call  uint64 `json:"call"`
	Error string `json:"error,omitempty"`
}

// Limits are the resources of a script.
type Limits struct {
	Memory uintptr `json:"memory"`        // bytes
	Output int     `json:"output"`        // characters of a result
	CPU    uint64  `json:"cpu,omitempty"` // seconds of the process; 0 means without a limit
}

// Call is the head of an input.
type Call struct {
	Call    uint64 `json:"call"`
	Program string `json:"program"`
	Session string `json:"session,omitempty"`
	Run     string `json:"run,omitempty"`
}

// Stop requests the end of a call.
type Stop struct {
	Call uint64 `json:"call"`
}

// Result is the head of the text of a result.
type Result struct {
	Call      uint64 `json:"call"`
	IsError   bool   `json:"isError,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// Log is the head of a line that a script logs.
type Log struct {
	Call  uint64 `json:"call"`
	Level string `json:"level"`
}

// Fetch is a request of a script.
type Fetch struct {
	Call     uint64      `json:"call"`
	Fetch    int         `json:"fetch"`
	URL      string      `json:"url,omitempty"`
	Method   string      `json:"method,omitempty"`
	Headers  [][2]string `json:"headers,omitempty"`
	Redirect string      `json:"redirect,omitempty"` // follow, error or manual
}

// Fetched is the response to a Fetch.
type Fetched struct {
	Call       uint64      `json:"call"`
	Fetch      int         `json:"fetch"`
	Error      string      `json:"error,omitempty"` // then the other fields are empty
	URL        string      `json:"url,omitempty"`
	Status     int         `json:"status,omitempty"`
	StatusText string      `json:"statusText,omitempty"`
	Headers    [][2]string `json:"headers,omitempty"`
}

// Writer writes frames, each by one Write. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex // guards w and buf
	w   io.Writer
	buf []byte
}

// NewWriter returns a Writer.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes a frame.
func (w *Writer) Write(kind byte, head any, body string) error {
	text, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}

	headSize, size := len(text), frameOverhead+len(text)+len(body)
	if headSize > maxFrame || size > maxFrame {
		return fmt.Errorf("%w: length %d", ErrMalformed, size)
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	buf := binary.BigEndian.AppendUint32(w.buf[:0], uint32(size))
	buf = append(buf, kind)
	buf = binary.BigEndian.AppendUint32(buf, uint32(headSize))
	buf = append(buf, text...)
	buf = append(buf, body...)
	if w.buf = buf; cap(buf) > 64<<10 { // large buffers are rare and are not retained
		w.buf = nil
	}

	_, err = w.w.Write(buf)
	return err
}

// Reader reads frames. A frame is valid until the next call of Read.
type Reader struct {
	r   *bufio.Reader
	buf []byte
}

// NewReader returns a Reader.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReaderSize(r, 16<<10)} }

// Read returns the kind, the head and the body of the next frame.
func (r *Reader) Read() (byte, []byte, []byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r.r, size[:]); err != nil {
		return 0, nil, nil, err
	}

	n := binary.BigEndian.Uint32(size[:])
	if n < frameOverhead || n > maxFrame {
		return 0, nil, nil, fmt.Errorf("%w: length %d", ErrMalformed, n)
	}

	if cap(r.buf) < int(n) || cap(r.buf) > 64<<10 && n < 4<<10 {
		r.buf = make([]byte, n)
	}

	buf := r.buf[:n]
	if _, err := io.ReadFull(r.r, buf); err != nil {
		return 0, nil, nil, err
	}

	headLen := binary.BigEndian.Uint32(buf[1:])
	if headLen > n-frameOverhead {
		return 0, nil, nil, fmt.Errorf("%w: a head of %d in %d bytes", ErrMalformed, headLen, n)
	}

	rest := buf[frameOverhead:]
	return buf[0], rest[:headLen], rest[headLen:], nil
}

// Decode calls do with a decoded head.
func Decode[Head any](text []byte, do func(Head)) error {
	var head Head
	if err := jsonlimit.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}

	do(head)
	return nil
}

// Limits of a fetch that both sides check.
const (
	MaxFetches   = 8       // concurrent requests of a call
	MaxFetchBody = 4 << 20 // bytes, either way
)

// MaxDefinition limits name, description and schema of a tool, and an error of a worker, in bytes.
const MaxDefinition = 256 << 10
