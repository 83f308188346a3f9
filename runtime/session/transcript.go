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
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// transcript is an open session of [Files].
type transcript struct {
	store   *Files
	key     key
	resumed bool
	run     string // set by Begin, before other calls

	mu       sync.Mutex // guards the fields below: events may be recorded during an append
	path     string     // of the file, relative to the root of the store
	messages []model.Message
	waiting  json.RawMessage
	header   header // zero before the first message
	former   bool   // the file has the format and perhaps the place of a former version
	entries  int64  // in the file
	events   int    // bytes of the events since the last compaction
	pending  [][]byte
	file     *os.File // locked; nil before the first message
	newName  bool     // the directory entry of the file is not synced
	unsynced bool     // the content of the file is not synced
	end      int64    // end of the last line in the file
	size     int64    // of the file: more than end after an interrupted append

	missingNewline bool // the last line has no line end
}

func (t *transcript) ID() string    { return t.key.id }
func (t *transcript) Resumed() bool { return t.resumed }

func (t *transcript) Begin(runID string) { t.run = runID }

func (t *transcript) Messages() []model.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clip(t.messages)
}

func (t *transcript) Append(_ context.Context, m model.Message) error {
	line, err := encoded(messageLine{&m, time.Now().UTC(), t.run})
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.add(line); err != nil {
		return err
	}

	t.messages = append(t.messages, m)
	return nil
}

func (t *transcript) Record(event json.RawMessage) error {
	line, err := encoded(eventLine{event, time.Now().UTC(), t.run})
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if t.events+len(line) > maxRecorded {
		return nil
	}

	t.events += len(line)
	if t.file == nil {
		t.pending = append(t.pending, line)
		return nil
	}

	return t.add(line)
}

func (t *transcript) Waiting() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting
}

func (t *transcript) SetWaiting(_ context.Context, waiting json.RawMessage, events ...json.RawMessage) error {
	now := time.Now().UTC()
	lines, err := encoded(waitingLine{waiting, now, t.run})
	for i := 0; i < len(events) && err == nil; i++ {
		var line []byte
		line, err = encoded(eventLine{events[i], now, t.run})
		lines = append(lines, line...)
	}

	if err != nil {
		return fmt.Errorf("encode what waits: %w", err)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if waiting == nil && t.waiting == nil {
		return nil
	}

	if err := t.add(lines); err != nil {
		return err
	}

	t.entries += int64(len(events)) - 1
	if t.waiting = bytes.Clone(waiting); waiting != nil {
		return nil
	}

	if err := t.store.sync(t.file, ""); err != nil {
		return fmt.Errorf("sync transcript: %w", err)
	}

	return nil
}

func (t *transcript) Compact(_ context.Context, messages []model.Message) error {
	for i := range messages { // the error names the message
		if _, err := encoded(&messages[i]); err != nil {
			return fmt.Errorf("encode messages: message %d: %w", i+1, err)
		}
	}

	line, err := encoded(compactionLine{append([]model.Message{}, messages...), time.Now().UTC(), t.run, t.Waiting()})
	if err != nil {
		return fmt.Errorf("encode messages: %w", err)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.file == nil && len(messages) == 0:
		return nil
	case t.end > maxRecorded:
		t.header.Dropped += t.entries
		if err := t.replaceFile(line); err != nil {
			t.header.Dropped -= t.entries
			return fmt.Errorf("replace transcript: %w", err)
		}

		t.entries = 1
	default:
		if err := t.add(line); err != nil {
			return err
		}
	}

	t.messages = slices.Clone(messages)
	t.events = 0
	return nil
}

// add appends a line to the file, with the header and the events before it to a new one.
func (t *transcript) add(line []byte) error {
	text := line
	switch {
	case t.file == nil:
		head, err := t.encodeHeader()
		if err != nil {
			return fmt.Errorf("encode header: %w", err)
		}

		if err := t.createFile(); err != nil {
			return fmt.Errorf("create transcript: %w", err)
		}

		text = slices.Concat(head, slices.Concat(t.pending...), line)
	case t.former:
		if err := t.convert(); err != nil {
			return fmt.Errorf("convert transcript: %w", err)
		}
	case t.missingNewline:
		text = append([]byte{'\n'}, line...)
	}

	first := t.end == 0
	if err := t.write(text); err != nil {
		if first {
			err = errors.Join(err, t.removeFile())
		}

		return fmt.Errorf("write transcript: %w", err)
	}

	t.entries++
	if first {
		t.entries += int64(len(t.pending))
		t.pending = nil
	}

	return nil
}

// encodeHeader returns the first line.
func (t *transcript) encodeHeader() ([]byte, error) {
	if t.header.Created.IsZero() {
		t.header.Created = time.Now().UTC()
	}

	t.header = header{
		Format: formatName, Version: formatVersion, ID: t.key.id, Agent: t.key.agent,
		CWD: t.store.cfg.CWD, Created: t.header.Created, Dropped: t.header.Dropped,
	}
	return encoded(t.header)
}

func (t *transcript) createFile() error {
	file, err := t.store.createFile(t.path)
	if err != nil {
		return err
	}

	t.file, t.newName = file, true
	// A process that guessed the id could have locked the file first.
	if err := lock(file); err != nil {
		return errors.Join(err, t.removeFile())
	}

	return nil
}

// write appends complete lines by one write. After an error it restores the previous content. It
// removes the rest of an interrupted append before, and that of a write whose rest could not be
// removed.
func (t *transcript) write(b []byte) error {
	if t.size > t.end {
		if err := t.file.Truncate(t.end); err != nil {
			return err
		}
	}

	t.unsynced = true
	n, err := t.file.WriteAt(b, t.end)
	t.size = t.end + int64(n)
	if err != nil {
		return errors.Join(err, t.file.Truncate(t.end))
	}

	t.end, t.missingNewline = t.size, false
	return nil
}

// removeFile removes the file of an empty session.
func (t *transcript) removeFile() error {
	err := errors.Join(t.store.root.Remove(t.path), unlockAndClose(t.file))
	t.file = nil
	return err
}

func (t *transcript) Close() error {
	defer t.store.release(t.key)
	if t.file == nil {
		return nil
	}

	if len(t.messages) == 0 { // after a compaction to an empty slice
		return t.removeFile()
	}

	var err error
	if t.unsynced || t.newName {
		folder := ""
		if t.newName {
			folder = filepath.Dir(t.path)
		}

		if err = t.store.sync(t.file, folder); err != nil {
			err = fmt.Errorf("sync transcript: %w", err)
		}
	}

	return errors.Join(err, unlockAndClose(t.file))
}

// convert replaces the file of a former version by one with the present format and place.
func (t *transcript) convert() error {
	b := make([]byte, t.end)
	if _, err := io.ReadFull(io.NewSectionReader(t.file, 0, t.end), b); err != nil {
		return err
	}

	_, entries, _ := bytes.Cut(b, []byte{'\n'})
	if t.missingNewline {
		entries = append(entries, '\n')
	}

	old := t.path
	t.path = t.store.paths(t.key)[0]
	err := t.store.makeFolder(t.path)
	if err == nil {
		err = t.replaceFile(entries)
	}

	if err != nil {
		t.path = old
		return err
	}

	t.former = false
	if t.path == old {
		return nil
	}

	return t.store.root.Remove(old)
}

// replaceFile replaces the file of the transcript by a header and these lines. After an error the
// file is unchanged. The new file is locked before the rename, so that no other run can open the
// session in between.
func (t *transcript) replaceFile(lines []byte) error {
	head, err := t.encodeHeader()
	if err != nil {
		return err
	}

	root, temporary := t.store.root, temporary(t.path)
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	file, err := root.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return err
	}

	text := slices.Concat(head, lines)
	if err = lock(file); err == nil {
		_, err = file.Write(text)
	}

	if err == nil {
		err = t.store.sync(file, "") // without it, a power failure could keep the name and lose the text
	}

	if err == nil {
		err = root.Rename(temporary, t.path)
	}

	if err != nil {
		return errors.Join(err, root.Remove(temporary), unlockAndClose(file))
	}

	_ = unlockAndClose(t.file) // the file has been replaced: an error has no effect
	t.file, t.newName, t.unsynced = file, true, false
	t.end, t.size, t.missingNewline = int64(len(text)), int64(len(text)), false
	return nil
}
