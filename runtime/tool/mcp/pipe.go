package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	_ sdk.Transport  = (*pipe)(nil)
	_ sdk.Connection = (*pipe)(nil)
)

// pipe is the connection over the stdin and stdout of a command: JSON values, one a line.
type pipe struct {
	in     io.WriteCloser
	out    io.ReadCloser
	filter *filter
	stray  *stray
	values chan value // from out; a Read may end while out blocks
	queue  []jsonrpc.Message

	mu     sync.Mutex // a message is written as a whole
	once   sync.Once
	closed chan struct{}
}

type value struct {
	data json.RawMessage
	err  error
}

func (p *pipe) Connect(context.Context) (sdk.Connection, error) {
	go p.decode()
	return p, nil
}

func (p *pipe) SessionID() string { return "" }

// decode reads lines of at most maxMessage bytes until the first error. A byte order mark before
// the first one is removed.
func (p *pipe) decode() {
	lines := bufio.NewReaderSize(p.out, 64<<10)
	mark := []byte("\uFEFF")
	for {
		line, err := readLine(lines)
		text := bytes.TrimSpace(bytes.TrimPrefix(line, mark))
		mark = nil
		if len(text) == 0 && err == nil {
			continue
		}

		v := value{data: text}
		isPart := err != nil && !json.Valid(text) // the end of an incomplete line
		if len(text) == 0 || errors.Is(err, errTooLarge) || isPart {
			v.err = err
		}

		select {
		case p.values <- v:
		case <-p.closed:
			return
		}

		if v.err != nil {
			return
		}
	}
}

// Read returns the next message that passes the filter. It writes the responses to requests of the
// server before it reads the next message, so that they do not accumulate if the server does not
// read.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	for len(p.queue) == 0 {
		var v value
		select {
		case v = <-p.values:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.closed:
			return nil, io.EOF
		}

		if errors.Is(v.err, errTooLarge) {
			return nil, p.filter.refuse(v.err)
		} else if v.err != nil {
			return nil, v.err
		}

		var written error
		err := errNotJSONRPC
		if json.Valid(v.data) {
			p.queue, err = p.filter.incoming(v.data, func(reply []byte) {
				if written == nil {
					written = p.write(reply)
				}
			})
		}

		if errors.Is(err, errNotJSONRPC) {
			err = p.stray.add(v.data)
		}

		if err != nil {
			return nil, p.filter.refuse(err)
		} else if written != nil {
			return nil, written
		}
	}

	next := p.queue[0]
	p.queue = p.queue[1:]
	return next, nil
}

func (p *pipe) Write(ctx context.Context, msg jsonrpc.Message) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}

	if err := p.filter.outgoing(msg); err != nil {
		return err
	}

	data, err := jsonrpc.EncodeMessage(msg)
	if err == nil {
		err = p.write(data)
	}

	if err != nil {
		p.filter.failed(msg)
	}

	return err
}

func (p *pipe) write(data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.in.Write(append(data, '\n'))
	return err
}

// readLine returns a line, and errTooLarge if it is longer than maxMessage.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxMessage+1 {
			return nil, errTooLarge
		}

		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (p *pipe) Close() error {
	var err error
	p.once.Do(func() {
		close(p.closed)
		err = errors.Join(p.out.Close(), p.in.Close())
	})
	return err
}
