package main

import (
	"fmt"
	"io"
	"time"
)

// progress is a reader that prints to a terminal how much was read.
type progress struct {
	io.Reader
	app     *app
	name    string
	done    int64 // bytes
	size    int64 // -1 if unknown
	printed time.Time
}

// progressInterval is the time between two lines of progress.
const progressInterval = 100 * time.Millisecond

func (p *progress) Read(buf []byte) (int, error) {
	n, err := p.Reader.Read(buf)
	p.done += int64(n)
	if p.app.quiet || !isTerminal(p.app.stderr) {
		return n, err
	}

	if time.Since(p.printed) > progressInterval || err != nil {
		p.printed = time.Now()
		if p.size > 0 {
			fmt.Fprintf(raw(p.app.stderr), "\r%s: %d%%", printable(p.name), min(100, p.done*100/p.size))
		} else {
			fmt.Fprintf(raw(p.app.stderr), "\r%s: %d bytes", printable(p.name), p.done)
		}

		if err != nil {
			fmt.Fprintln(p.app.stderr)
		}
	}

	return n, err
}

// seekingProgress is the progress of an upload, which begins again if the request is repeated.
type seekingProgress struct {
	progress
	seeker io.Seeker
}

func (p *seekingProgress) Seek(offset int64, whence int) (int64, error) {
	n, err := p.seeker.Seek(offset, whence)
	p.done = n
	return n, err
}
