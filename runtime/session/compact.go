package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed93082962/agenthost/runtime/model"
)

func (t *transcript) Compact(_ context.Context, messages []model.Message) error {
	if t.file == nil && len(messages) == 0 {
		return nil
	}
	text, err := t.whole(messages)
	if err != nil {
		return fmt.Errorf("encode messages: %w", err)
	}
	first := t.file == nil
	if first { // to have the name: what is put in its place would be put over anything
		if err := t.create(); err != nil {
			return fmt.Errorf("create transcript: %w", err)
		}
	}
	if err := t.replace(text); err != nil {
		if first {
			err = errors.Join(err, t.discard())
		}
		return fmt.Errorf("replace transcript: %w", err)
	}
	t.messages = slices.Clone(messages)
	return nil
}

// whole is a transcript of those messages.
func (t *transcript) whole(messages []model.Message) ([]byte, error) {
	var b bytes.Buffer
	if err := t.header(&b); err != nil {
		return nil, err
	}
	for i := range messages {
		if err := encodeMessage(&b, &messages[i]); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	return b.Bytes(), nil
}

// replace puts a new file in the place of the transcript's, or leaves all as it was. The new one
// is locked before it has the name, so that the session is in this run's hands all the time.
func (t *transcript) replace(text []byte) error {
	root, name := t.store.root, t.store.name(t.key)
	temporary := filepath.Join(filepath.Dir(name), t.key.id+newExtension)
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
		err = t.store.fsync(file) // or the name could outlive the machine, and the text not
	}
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary), drop(file))
	}
	_ = drop(t.file) // what could fail here is a file that is gone
	t.file, t.named, t.changed = file, true, false
	t.end, t.size, t.unended = int64(len(text)), int64(len(text)), false
	return nil
}
