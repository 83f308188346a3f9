package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	hubwire "github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/content"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// upload sends the files of the next message to the hub, which finds their types.
func (c *chat) upload(ctx context.Context) ([]wire.ContentPart, error) {
	if len(c.attach) > runvalue.MaxImages {
		return nil, usage("a message may have %d images and files", runvalue.MaxImages)
	}

	var parts []wire.ContentPart
	for _, name := range c.attach {
		data, err := readAttached(name)
		if err != nil {
			return nil, err
		}

		stored, err := c.client.Chats.Upload(ctx, c.agent, "", data)
		if err != nil {
			return nil, fmt.Errorf("attach %s: %w", name, err)
		}

		part := wire.ContentPart{Type: runvalue.PartFile, Name: filepath.Base(name), UploadID: stored.ID}
		if content.IsImage(stored.MediaType) {
			part.Type = runvalue.PartImage
		}

		parts = append(parts, part)
	}

	return parts, nil
}

// readAttached reads a file that is not too large for the hub.
func readAttached(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("attach %s: %w", name, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("open %s: it is not a file", name)
	case info.Size() > runvalue.MaxFileBytes:
		return nil, fmt.Errorf("read %s: it has more than %d MiB", name, runvalue.MaxFileBytes>>20)
	}

	return os.ReadFile(name)
}

// attachment is an image or a file of a stored message.
type attachment struct {
	Type      string `json:"type"`
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	UploadID  string `json:"uploadId"`
}

func (a attachment) String() string { return fmt.Sprintf("[%s %s, %s]", a.Type, a.Name, a.MediaType) }

// attachmentsOf returns the images and files of a message.
func attachmentsOf(m hubwire.ChatMessage) []attachment {
	var blocks []attachment
	_ = jsonlimit.Unmarshal(m.Content, &blocks) // a block of another form has no file
	return slices.DeleteFunc(blocks, func(b attachment) bool { return b.UploadID == "" })
}
