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
	root, path := t.store.root, t.store.path(t.key)
	temporary := filepath.Join(filepath.Dir(path), t.key.id+newExtension)
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
		err = root.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary), unlockAndClose(file))
	}
	_ = unlockAndClose(t.file) // the file has been replaced: an error has no effect
	t.file, t.newName, t.unsynced = file, true, false
	t.end, t.size, t.missingNewline = int64(len(text)), int64(len(text)), false
	return nil
}
