package sse_test

import (
	"bytes"
	"io"
	"math/big"
	"strings"
	"testing/iotest"
	"time"

	"github.com/seed93082962/agenthost/sse"
)

// outcome is everything that a reader gets from a stream.
type outcome struct {
	Events   []sse.Event
	LastID   string
	Retry    time.Duration
	HasRetry bool
	Err      error // io.EOF at a regular end
}

// reference follows the text of the WHATWG HTML standard, sections 9.2.5 and 9.2.6, sentence by
// sentence and regardless of speed. Its input is the whole stream.
func reference(stream []byte) outcome {
	var out outcome
	text := strings.TrimPrefix(string(stream), "\ufeff")
	var typ, id string
	var data strings.Builder
	var retry time.Duration
	for {
		at := strings.IndexAny(text, "\r\n")
		if at < 0 {
			out.Err = io.EOF
			return out // "any pending data must be discarded"
		}
		line := text[:at]
		if strings.HasPrefix(text[at:], "\r\n") {
			at++
		}
		text = text[at+1:]

		if line == "" {
			out.LastID = id
			if data.Len() > 0 {
				out.Events = append(out.Events, sse.Event{
					Type: typ, ID: id, Retry: retry,
					Data: []byte(strings.TrimSuffix(data.String(), "\n")),
				})
			}
			data.Reset()
			typ, retry = "", 0
			continue
		}
		if line[0] == ':' {
			continue
		}
		field, value, found := strings.Cut(line, ":")
		if found {
			value = strings.TrimPrefix(value, " ")
		}
		switch field {
		case "event":
			typ = value
		case "data":
			data.WriteString(value + "\n")
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				n, _ := new(big.Int).SetString(value, 10)
				most := big.NewInt((1<<63 - 1) / int64(time.Millisecond))
				if n.Cmp(most) > 0 {
					n = most
				}
				retry = time.Duration(n.Int64()) * time.Millisecond
				out.Retry, out.HasRetry = retry, true
			}
		}
	}
}

// drain reads d to its end. If ahead is set, it calls Buffered twice after each event.
func drain(d *sse.Decoder, ahead bool) outcome {
	var out outcome
	for {
		ev, err := d.Next()
		if err != nil {
			out.Err = err
			break
		}
		if ahead {
			d.Buffered()
			d.Buffered()
		}
		out.Events = append(out.Events, ev.Clone())
	}
	out.LastID = d.LastEventID()
	out.Retry, out.HasRetry = d.Retry()
	return out
}

// chunked returns readers that return the same stream in different pieces.
func chunked(stream []byte) map[string]func() io.Reader {
	return map[string]func() io.Reader{
		"whole":      func() io.Reader { return bytes.NewReader(stream) },
		"bytes":      func() io.Reader { return iotest.OneByteReader(bytes.NewReader(stream)) },
		"halves":     func() io.Reader { return iotest.HalfReader(bytes.NewReader(stream)) },
		"eof beside": func() io.Reader { return iotest.DataErrReader(bytes.NewReader(stream)) },
	}
}

func splitAt(stream []byte, at int) io.Reader {
	return io.MultiReader(bytes.NewReader(stream[:at]), bytes.NewReader(stream[at:]))
}
