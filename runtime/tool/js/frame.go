package js

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A frame between the host and a worker is
//
//	4 bytes  length of what follows, big endian
//	1 byte   kind
//	4 bytes  length of the head
//	head     JSON
//	body     bytes: a source, bytecode, an input, a result, the body of a response
const (
	frameSetup      = 'S' // to the worker, first: limits
	frameUnconfined = 'U' // a text: why the kernel does not confine the worker
	frameBuild      = 'b' // to the worker: buildHead, a source. Response: built.
	frameBuilt      = 'B' // buildAnswer, bytecode
	frameProgram    = 'p' // to the worker: programHead, bytecode. Stored for calls.
	frameWarm       = 'w' // to the worker: warmHead. An engine is made for the next call. Response: warmed.
	frameWarmed     = 'W' // warmedHead
	frameCall       = 'c' // to the worker: callHead, the input. Uses the engine. Response: result.
	frameResult     = 'R' // resultHead, a text
	frameStop       = 's' // to the worker: stopHead. The call ends with a result.
	frameLog        = 'L' // logHead, a text
	frameFetch      = 'F' // fetchHead, a body
	frameGiveUp     = 'G' // fetchHead: the script no longer needs the response
	frameFetched    = 'f' // to the worker: fetchAnswer, a body
)

// maxFrame limits a frame. It is larger than the largest body of each kind.
const maxFrame = 16 << 20

const frameOverhead = 1 + 4

var errFrame = errors.New("malformed frame")

type buildHead struct {
	Call   uint64 `json:"call"`
	File   string `json:"file"`
	NoCode bool   `json:"noCode,omitempty"` // the response has no bytecode and no map
}

type buildAnswer struct {
	Error       string          `json:"error,omitempty"` // for the operator; then the other fields are empty
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	Map         sourceMap       `json:"map,omitzero"`
}

type programHead struct {
	ID string `json:"id"`
}

type warmHead struct {
	Call    uint64 `json:"call"`
	Program string `json:"program"`
	Evict   string `json:"evict,omitempty"` // a program whose engine is closed first
}

type warmedHead struct {
	Call  uint64 `json:"call"`
	Error string `json:"error,omitempty"`
}

// limits are the resources of a script.
type limits struct {
	Memory uintptr `json:"memory"`        // bytes
	Output int     `json:"output"`        // characters of a result
	CPU    uint64  `json:"cpu,omitempty"` // seconds of the process; 0 means without a limit
}

type callHead struct {
	Call    uint64 `json:"call"`
	Program string `json:"program"`
	Session string `json:"session,omitempty"`
	Run     string `json:"run,omitempty"`
}

type stopHead struct {
	Call uint64 `json:"call"`
}

type resultHead struct {
	Call      uint64 `json:"call"`
	IsError   bool   `json:"isError,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Stack     string `json:"stack,omitempty"`
}

type logHead struct {
	Call  uint64 `json:"call"`
	Level string `json:"level"`
}

type fetchHead struct {
	Call     uint64      `json:"call"`
	Fetch    int         `json:"fetch"`
	URL      string      `json:"url,omitempty"`
	Method   string      `json:"method,omitempty"`
	Headers  [][2]string `json:"headers,omitempty"`
	Redirect string      `json:"redirect,omitempty"` // follow, error or manual
}

type fetchAnswer struct {
	Call       uint64      `json:"call"`
	Fetch      int         `json:"fetch"`
	Error      string      `json:"error,omitempty"` // then the other fields are empty
	URL        string      `json:"url,omitempty"`
	Status     int         `json:"status,omitempty"`
	StatusText string      `json:"statusText,omitempty"`
	Headers    [][2]string `json:"headers,omitempty"`
}

// frameWriter writes frames, each by one Write. It is safe for concurrent use.
type frameWriter struct {
	mu  sync.Mutex // guards w and buf
	w   io.Writer
	buf []byte
}

func (w *frameWriter) write(kind byte, head any, body string) error {
	text, err := json.Marshal(head)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	headSize, size := len(text), frameOverhead+len(text)+len(body)
	if headSize > maxFrame || size > maxFrame {
		return fmt.Errorf("%w: length %d", errFrame, size)
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

// frameReader reads frames. A frame is valid until the next call of read.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

func newFrameReader(r io.Reader) *frameReader { return &frameReader{r: bufio.NewReaderSize(r, 16<<10)} }

func (r *frameReader) read() (kind byte, head, body []byte, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r.r, size[:]); err != nil {
		return 0, nil, nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < frameOverhead || n > maxFrame {
		return 0, nil, nil, fmt.Errorf("%w: length %d", errFrame, n)
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
		return 0, nil, nil, fmt.Errorf("%w: a head of %d in %d bytes", errFrame, headLen, n)
	}
	rest := buf[frameOverhead:]
	return buf[0], rest[:headLen], rest[headLen:], nil
}
