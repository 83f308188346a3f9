package chat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/content"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

const (
	// maxFiles bounds the files of a user, in bytes, with fileOverhead for each. One in two chats
	// counts twice. Concurrent requests may exceed it by what each of them stores.
	maxFiles = 512 << 20

	// fileOverhead bounds the number of the files of a user, 32,768, which each transaction that
	// stores one adds up.
	fileOverhead = 16 << 10

	// unusedFor is the time after which an upload that no message uses is deleted, by a sweep.
	unusedFor = time.Hour

	// sweepWidth is the number of uploads that one transaction of a sweep deletes: SQLite overwrites
	// their bytes, at most 50 MiB, while no other transaction can write.
	sweepWidth = 5
)

var errNoFile = wire.NotFound.New("The chat has no such file.")

// newFile returns a file that is not stored.
func newFile(media string, data []byte) file {
	digest := sha256.New()
	_, _ = digest.Write([]byte(media + "\n")) // a hash takes all bytes
	_, _ = digest.Write(data)
	return file{ID: hex.EncodeToString(digest.Sum(nil)), MediaType: media, Size: len(data), Data: data}
}

// checkFiles fails with wire.Conflict if a user has stored too many files.
func checkFiles(ctx context.Context, tx *sql.Tx, tenantID, userID string) error {
	stored, err := fileBytesOf(ctx, tx, tenantID, userID)
	if err == nil && stored > maxFiles {
		err = wire.Conflict.New(fmt.Sprintf("The images and files of a user may have at most %d MiB: delete some of your chats first.", maxFiles>>20))
	}

	return err
}

// storeFile stores a file of the caller for messages that are sent within the next hour. It fails
// with wire.NotFound unless the caller may use the agent.
func (s *Service) storeFile(ctx context.Context, caller api.Caller, agentName string, f file) (runtimewire.Upload, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, "")
	if err != nil {
		return runtimewire.Upload{}, err
	}

	err = s.store.DB.Tx(ctx, func(tx *sql.Tx) error {
		if err := insertUpload(ctx, tx, ref.TenantID, ref.UserID, f, s.store.Now()); err != nil {
			return err
		}

		return checkFiles(ctx, tx, ref.TenantID, ref.UserID)
	})
	sum := sha256.Sum256(f.Data)
	return runtimewire.Upload{ID: f.ID, MediaType: f.MediaType, Size: f.Size, SHA256: hex.EncodeToString(sum[:])}, err
}

// upload handles the upload of a file.
func (s *Service) upload(w http.ResponseWriter, r *http.Request) error {
	if err := s.enabledAgent(r.Context(), api.CallerOf(r), r.PathValue("name")); err != nil {
		return err
	}

	data, err := api.ReadBody(w, r)
	if errors.Is(err, httpapi.ErrTooLarge) {
		return code.PayloadTooLarge.New(fmt.Sprintf("A file may have at most %d MiB, and an image %d MiB: send a smaller one.",
			runvalue.MaxFileBytes>>20, runvalue.MaxImageBytes>>20))
	}

	if err != nil {
		return err
	}

	field, declared := "Content-Type", r.Header.Get("Content-Type")
	switch media, _, _ := mime.ParseMediaType(declared); media {
	case "", "application/octet-stream", "application/x-www-form-urlencoded": // curl sends the latter for any bytes
		field, declared = "body", ""
	}

	media, err := content.CheckBytes(field, declared, data)
	if err != nil {
		return ofContent(err)
	}

	if err := api.TakeMemory(r, int64(len(data))); err != nil { // the driver of the database copies it
		return err
	}

	stored, err := s.storeFile(r.Context(), api.CallerOf(r), r.PathValue("name"), newFile(media, data))
	if err != nil {
		return err
	}

	return api.Encode(w, http.StatusCreated, stored)
}

// ofContent returns the error of a request for the fault of a part of its content.
func ofContent(err error) error {
	if fault, ok := errors.AsType[*content.Error](err); ok {
		fields := api.Fields{}
		fields.Add(fault.Field, strings.TrimLeft(fault.Fault, ": "))
		return fields
	}

	return err
}

// serveFile handles the download of a file of a session.
func (s *Service) serveFile(w http.ResponseWriter, r *http.Request, ref reference) error {
	in, err := findSession(r.Context(), s.store.Read(), ref)
	if err != nil {
		return err
	}

	f, err := findFile(r.Context(), s.store.Read(), in, r.PathValue("upload"))
	if err != nil {
		return err
	}

	if err := api.TakeMemory(r, 2*int64(f.Size)); err != nil { // with the copy of the driver
		return err
	}

	if f.Data, err = readFile(r.Context(), s.store.Read(), in, f.ID); err != nil {
		return err
	}

	media := f.MediaType
	if !content.IsImage(media) && media != content.PDF {
		media = content.Text + "; charset=utf-8" // a page of HTML is never one
	}

	policy := w.Header().Get("Content-Security-Policy")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	served := filesafe.Content{
		Body: bytes.NewReader(f.Data), Name: f.ID, Type: media, Size: int64(f.Size), ETag: `"` + f.ID + `"`,
		CacheControl: "private, no-cache", // only the client's own cache, which must revalidate
	}
	status, err := served.Serve(w, r)
	switch status { // of an error, which has the headers of others
	case http.StatusPreconditionFailed:
		w.Header().Set("Content-Security-Policy", policy)
		return wire.PreconditionFailed.New("The file has another id than If-Match names.")
	case http.StatusRequestedRangeNotSatisfiable:
		w.Header().Set("Content-Security-Policy", policy)
		return &wire.Error{Code: wire.InvalidRequest, Status: status, Message: "The range is beyond the end of the file."}
	}

	return err
}

// DeleteUnusedUploads deletes uploads that no message has used for an hour, and returns their
// number.
func (s *Service) DeleteUnusedUploads(ctx context.Context) (int64, error) {
	before := s.store.Now().Add(-unusedFor)
	for all := int64(0); ; {
		var n int64
		err := s.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
			n, err = deleteUnused(ctx, tx, before, sweepWidth)
			return err
		})
		if all += n; err != nil || n < sweepWidth {
			return all, err
		}
	}
}
