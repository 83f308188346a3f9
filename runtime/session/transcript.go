package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// transcript is a session of [Files] in the hands of a run.
type transcript struct {
	store    *Files
	key      key
	resumed  bool
	messages []model.Message

	file    *os.File  // locked; nil before the first message
	created time.Time // when the session was
	named   bool      // by this run: the file's name is new
	changed bool      // since it was opened or synced
	end     int64     // of the last message in the file
	size    int64     // of the file: over end where an append broke off
	unended bool      // the last message has no line end

	buf bytes.Buffer
}

// keptBuffer is the largest buffer, in bytes, that stays for the next message.
const keptBuffer = 64 << 10

func (t *transcript) ID() string                { return t.key.id }
func (t *transcript) Resumed() bool             { return t.resumed }
func (t *transcript) Messages() []model.Message { return slices.Clip(t.messages) }

func (t *transcript) Append(_ context.Context, m model.Message) error {
	if t.buf.Cap() > keptBuffer {
		t.buf = bytes.Buffer{}
	}
	t.buf.Reset()
	if err := t.lines(m); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if t.file == nil {
		if err := t.create(); err != nil {
			return fmt.Errorf("create transcript: %w", err)
		}
	}
	if err := t.write(t.buf.Bytes()); err != nil {
		if t.end == 0 {
			err = errors.Join(err, t.discard())
		}
		return fmt.Errorf("write transcript: %w", err)
	}
	t.messages = append(t.messages, m)
	return nil
}

// lines puts into the buffer what the message adds to the file.
func (t *transcript) lines(m model.Message) error {
	switch {
	case t.file == nil:
		if err := t.header(&t.buf); err != nil {
			return err
		}
	case t.unended:
		t.buf.WriteByte('\n')
	}
	return encodeMessage(&t.buf, &m)
}

func (t *transcript) header(to *bytes.Buffer) error {
	if t.created.IsZero() {
		t.created = time.Now().UTC()
	}
	return encode(to, header{
		Format: formatName, Version: formatVersion,
		ID: t.key.id, Agent: t.key.agent, CWD: t.store.cfg.CWD, Created: t.created,
	})
}

func (t *transcript) create() error {
	file, err := t.store.create(t.key)
	if err != nil {
		return err
	}
	t.file, t.named = file, true
	// Until here somebody who guessed the id could have come first.
	if err := lock(file); err != nil {
		return errors.Join(err, t.discard())
	}
	return nil
}

// write appends whole lines by one write, or leaves the file as it was.
func (t *transcript) write(b []byte) error {
	if t.size > t.end {
		if err := t.cut(); err != nil {
			return err
		}
	}
	t.changed = true
	n, err := t.file.WriteAt(b, t.end)
	t.size = t.end + int64(n)
	if err != nil {
		return errors.Join(err, t.cut())
	}
	t.end, t.unended = t.size, false
	return nil
}

// cut takes off what a broken append has left. If that fails the next append tries again.
func (t *transcript) cut() error {
	if err := t.file.Truncate(t.end); err != nil {
		return err
	}
	t.size = t.end
	return nil
}

// discard removes a file in which nothing was said.
func (t *transcript) discard() error {
	err := errors.Join(t.store.root.Remove(t.store.name(t.key)), drop(t.file))
	t.file, t.named, t.changed, t.size = nil, false, false, 0
	return err
}

func (t *transcript) Close() error {
	defer t.store.free(t.key)
	if t.file == nil {
		return nil
	}
	if len(t.messages) == 0 { // compacted away
		return t.discard()
	}
	var err error
	if t.changed || t.named {
		if err = t.store.sync(t.file, t.key.agent, t.named); err != nil {
			err = fmt.Errorf("sync transcript: %w", err)
		}
	}
	return errors.Join(err, drop(t.file))
}
