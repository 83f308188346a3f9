package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

// transcript is an open session of [Files].
type transcript struct {
	store    *Files
	key      key
	path     string // of the file, relative to the root of the store
	resumed  bool
	messages []model.Message

	file           *os.File  // locked; nil before the first message
	created        time.Time // of the session
	newName        bool      // the directory entry of the file is not synced
	unsynced       bool      // the content of the file is not synced
	end            int64     // end of the last message in the file
	size           int64     // of the file: more than end after an interrupted append
	missingNewline bool      // the last message has no line end

	buf bytes.Buffer
}

// maxRetainedBuffer is the largest buffer, in bytes, that is reused for the next message.
const maxRetainedBuffer = 64 << 10

func (t *transcript) ID() string                { return t.key.id }
func (t *transcript) Resumed() bool             { return t.resumed }
func (t *transcript) Messages() []model.Message { return slices.Clip(t.messages) }

func (t *transcript) Append(_ context.Context, m model.Message) error {
	if t.buf.Cap() > maxRetainedBuffer {
		t.buf = bytes.Buffer{}
	}
	t.buf.Reset()
	if err := t.encodeAppend(m); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if t.file == nil {
		if err := t.createFile(); err != nil {
			return fmt.Errorf("create transcript: %w", err)
		}
	}
	if err := t.write(t.buf.Bytes()); err != nil {
		if t.end == 0 {
			err = errors.Join(err, t.removeFile())
		}
		return fmt.Errorf("write transcript: %w", err)
	}
	t.messages = append(t.messages, m)
	return nil
}

// encodeAppend writes the text of an append to the buffer: the message, and before it the header of
// a new file or a missing line end.
func (t *transcript) encodeAppend(m model.Message) error {
	switch {
	case t.file == nil:
		if err := t.encodeHeader(&t.buf); err != nil {
			return err
		}
	case t.missingNewline:
		t.buf.WriteByte('\n')
	}
	return encodeMessage(&t.buf, &m)
}

func (t *transcript) encodeHeader(to *bytes.Buffer) error {
	if t.created.IsZero() {
		t.created = time.Now().UTC()
	}
	return encodeLine(to, header{
		Format: formatName, Version: formatVersion,
		ID: t.key.id, Agent: t.key.agent, CWD: t.store.cfg.CWD, Created: t.created,
	})
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

// write appends complete lines by one write. After an error it restores the previous content.
func (t *transcript) write(b []byte) error {
	if t.size > t.end {
		if err := t.truncate(); err != nil {
			return err
		}
	}
	t.unsynced = true
	n, err := t.file.WriteAt(b, t.end)
	t.size = t.end + int64(n)
	if err != nil {
		return errors.Join(err, t.truncate())
	}
	t.end, t.missingNewline = t.size, false
	return nil
}

// truncate removes the rest of an interrupted append. If it fails, the next append tries again.
func (t *transcript) truncate() error {
	if err := t.file.Truncate(t.end); err != nil {
		return err
	}
	t.size = t.end
	return nil
}

// removeFile removes the file of an empty session.
func (t *transcript) removeFile() error {
	err := errors.Join(t.store.root.Remove(t.path), unlockAndClose(t.file))
	t.file = nil
	t.newName = false
	t.unsynced = false
	t.size = 0
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
		if err = t.store.sync(t.file, t.path, t.newName); err != nil {
			err = fmt.Errorf("sync transcript: %w", err)
		}
	}
	return errors.Join(err, unlockAndClose(t.file))
}

func (t *transcript) Compact(_ context.Context, messages []model.Message) error {
	if t.file == nil && len(messages) == 0 {
		return nil
	}
	text, err := t.encodeAll(messages)
	if err != nil {
		return fmt.Errorf("encode messages: %w", err)
	}
	first := t.file == nil
	if first { // reserves the name: the rename of replaceFile would overwrite any other file
		if err := t.createFile(); err != nil {
			return fmt.Errorf("create transcript: %w", err)
		}
	}
	if err := t.replaceFile(text); err != nil {
		if first {
			err = errors.Join(err, t.removeFile())
		}
		return fmt.Errorf("replace transcript: %w", err)
	}
	t.messages = slices.Clone(messages)
	return nil
}

// encodeAll returns the text of a transcript with these messages.
func (t *transcript) encodeAll(messages []model.Message) ([]byte, error) {
	var b bytes.Buffer
	if err := t.encodeHeader(&b); err != nil {
		return nil, err
	}
	for i := range messages {
		if err := encodeMessage(&b, &messages[i]); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return b.Bytes(), nil
}

// replaceFile replaces the file of the transcript. After an error the file is unchanged. The new
// file is locked before the rename, so that no other run can open the session in between.
func (t *transcript) replaceFile(text []byte) error {
	root, temporary := t.store.root, temporary(t.path)
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := root.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return err
	}
	if err = lock(file); err == nil {
		_, err = file.Write(text)
	}
	if err == nil {
		err = t.store.fsync(file) // without it, a power failure could keep the name and lose the text
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
