package builtin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/seed93082962/agenthost/runtime/tool"
)

type readInput struct {
	FilePath string `json:"file_path"`
	Offset   int    `json:"offset"`
	Limit    int    `json:"limit"`
}

const (
	defaultLines = 2000
	noteRoom     = 200  // bytes of the output for notes at the end
	binaryPrefix = 8000 // bytes in which a null byte identifies a binary file
)

func newRead(c *Config) tool.Tool {
	skills := skillDirs(c.Dir, c.Skills)
	return tool.Typed(tool.Spec{
		Name: "Read",
		Description: `Reads a text file. Each line of the output is a line number, a tab and the line. The number and the tab are not in the file.
By default, the output begins at the first line and has at most 2000 lines. If the file is longer, the last line of the output gives the next offset. A line is truncated after 2000 bytes.
Read a file before you change it. Binary files and directories cannot be read; use Glob to list a directory.`,
		InputSchema: inputSchema(`"file_path"`, `
    "file_path": {"type": "string", "minLength": 1, "description": "The file, absolute or relative to the working directory"},
    "offset": {"type": "integer", "minimum": 0, "description": "The number of the first line to read, from 1"},
    "limit": {"type": "integer", "minimum": 1, "description": "The maximum number of lines to read"}`),
		ReadOnly: true,
	}, func(ctx context.Context, in readInput) (tool.Result, error) {
		f, err := openForRead(c.Dir, skills, in.FilePath)
		if err != nil {
			return tool.Result{}, err
		}

		defer func() { _ = f.Close() }() // it was only read
		p := page{in: bufio.NewReaderSize(f, 64<<10), limit: c.MaxOutput - noteRoom}
		res, err := p.read(ctx, display(in.FilePath), max(in.Offset, 1), max(cmp.Or(in.Limit, defaultLines), 1))
		if err != nil {
			return tool.Result{}, err
		}

		whole := c.result(res.Output)
		whole.Truncated = whole.Truncated || res.Truncated
		return whole, nil
	})
}

// page reads a range of lines of a file. It holds only what it returns.
type page struct {
	in    *bufio.Reader
	limit int // bytes of out

	out  []byte
	line []byte // the beginning of the current line, without its end
	more int64  // bytes of the current line that are not in line
	crlf bool   // a line in out ends in "\r\n"
}

var errBinary = errors.New("binary")

func (p *page) read(ctx context.Context, name string, first, limit int) (tool.Result, error) {
	number := 0
	head, err := p.in.Peek(binaryPrefix)
	switch {
	case bytes.IndexByte(head, 0) >= 0:
		err = errBinary
	case len(head) > 0:
		for number, err = 1, nil; number < first && err == nil; number++ {
			err = p.skip(ctx)
		}
	}

	if errors.Is(err, io.EOF) && number == 0 {
		return tool.Result{Output: name + " is empty."}, nil
	}

	for count := 0; err == nil; count, number = count+1, number+1 {
		if err = p.next(ctx); err != nil {
			break
		}

		before := len(p.out)
		p.out = fmt.Appendf(p.out, "%6d\t", number)
		p.out = append(appendLine(p.out, p.line, p.more), '\n')
		if count == limit || count > 0 && len(p.out) > p.limit {
			return p.result(p.out[:before], fmt.Sprintf("[The file continues. Use offset %d to read on.]\n", number)), nil
		}
	}

	switch {
	case errors.Is(err, errBinary):
		return tool.Result{}, fmt.Errorf("%s is a binary file, which Read cannot return", name)
	case !errors.Is(err, io.EOF):
		return tool.Result{}, fmt.Errorf("%s: %w", name, err)
	case len(p.out) == 0:
		return tool.Result{Output: fmt.Sprintf("%s has only %s: offset %d is after its end.", name, plural(number-1, "line"), first)}, nil
	}

	return p.result(p.out, ""), nil
}

func (p *page) result(out []byte, more string) tool.Result {
	if p.crlf {
		out = append(out, "[Lines of this file end in \\r\\n.]\n"...)
	}

	return tool.Result{Output: string(append(out, more...)), Truncated: more != ""}
}

// next reads a line. It returns io.EOF at the end of the file.
func (p *page) next(ctx context.Context) error {
	p.line, p.more = p.line[:0], 0
	for got := false; ; got = true {
		part, err := p.in.ReadSlice('\n')
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if bytes.IndexByte(part, 0) >= 0 {
			return errBinary
		}

		if errors.Is(err, io.EOF) && (got || len(part) > 0) {
			err = nil
		}

		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}

		ended := len(part) > 0 && part[len(part)-1] == '\n'
		if ended {
			part = part[:len(part)-1]
			if len(part) > 0 && part[len(part)-1] == '\r' {
				part, p.crlf = part[:len(part)-1], true
			}
		}

		// One byte more than the maximum makes appendLine truncate the line.
		keep := min(max(maxLine+1-len(p.line), 0), len(part))
		p.line = append(p.line, part[:keep]...)
		p.more += int64(len(part) - keep)
		if err == nil {
			return nil
		}
	}
}

// skip skips a line. It returns io.EOF if that was the last one.
func (p *page) skip(ctx context.Context) error {
	for {
		_, err := p.in.ReadSlice('\n')
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		if err == nil {
			_, err = p.in.Peek(1)
		}

		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
