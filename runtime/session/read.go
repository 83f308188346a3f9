package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/seed93082962/agenthost/runtime/model"
)

// Transcript implements [Store]. A line that cannot be read has no entry.
func (f *Files) Transcript(ctx context.Context, id string, after int64, limit int) (Transcript, error) {
	if !validFile(id) {
		return Transcript{}, ErrUnknown
	}

	agents, err := f.agents()
	if err != nil {
		return Transcript{}, fmt.Errorf("read transcript %s: %w", id, err)
	}

	for _, agent := range agents {
		for _, path := range f.paths(key{agent, id}) {
			t, err := f.readFile(ctx, path, after, limit)
			if err == nil && t.ID == id && t.AgentID == agent {
				return t, nil
			}

			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return Transcript{}, fmt.Errorf("read transcript %s of agent %s: %w", id, agent, err)
			}
		}
	}

	return Transcript{}, ErrUnknown
}

// readFile reads a transcript that a run may be appending to.
func (f *Files) readFile(ctx context.Context, path string, after int64, limit int) (Transcript, error) {
	info, err := f.root.Lstat(path)
	if err != nil {
		return Transcript{}, err
	}

	if !info.Mode().IsRegular() {
		return Transcript{}, fmt.Errorf("%w: not a regular file", errDamaged)
	}

	if f.expired(info) {
		return Transcript{}, fs.ErrNotExist
	}

	file, err := f.root.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return Transcript{}, err
	}

	defer func() { _ = file.Close() }() // read-only
	return readPage(ctx, io.LimitReader(file, info.Size()), after, limit)
}

// readPage reads the entries after a seq, and counts all. The last line may be incomplete.
func readPage(ctx context.Context, from io.Reader, after int64, limit int) (Transcript, error) {
	l := newLineReader(from, readBuffer)
	var t Transcript
	size, full := 0, false
	for n := 1; ctx.Err() == nil; n++ {
		line, err := l.next()
		if err != nil {
			return t, fmt.Errorf("line %d: %w", n, err)
		}

		if !bytes.HasSuffix(line, []byte{'\n'}) {
			return t, nil
		}

		if n == 1 {
			var h header
			if err := h.decode(line); err != nil {
				return t, fmt.Errorf("line %d: %w", n, err)
			}

			t.ID, t.AgentID = h.ID, h.Agent
			t.Created, t.Total = h.Created, h.Dropped
			continue
		}

		if bytes.HasPrefix(line, waitingPrefix) {
			continue
		}

		t.Total++
		if t.Total <= after {
			continue
		}

		full = full || len(t.Entries) >= limit || size > 0 && size+len(line) > maxPage
		if full { // the further lines are only counted
			continue
		}

		if e, ok := decodeEntry(line); ok {
			e.Seq = t.Total
			size += len(line)
			t.Entries = append(t.Entries, e)
		}
	}

	return t, ctx.Err()
}

// decodeEntry decodes a line after the header.
func decodeEntry(line []byte) (TranscriptEntry, bool) {
	var err error
	var e TranscriptEntry
	switch {
	case bytes.HasPrefix(line, eventPrefix):
		var event eventLine
		err = json.Unmarshal(line, &event)
		e.Event, e.Time, e.Run = event.Event, event.Time, event.Run
	case bytes.HasPrefix(line, compactionPrefix):
		var to compactionLine
		err = json.Unmarshal(line, &to)
		e.Compacted, e.Time, e.Run = to.Compacted, to.Time, to.Run
	default:
		m := messageLine{Message: &model.Message{}}
		err = json.Unmarshal(line, &m)
		e.Message, e.Time, e.Run = m.Message, m.Time, m.Run
	}

	return e, err == nil
}
