package chat

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Upload is a session of another program.
type Upload struct {
	TenantID  string
	UserID    string
	UserName  string
	ID        string // unique for the user
	AgentName string
	Title     string // Defaults to the start of the first message of the user.
	CreatedAt time.Time
	UpdatedAt time.Time
	Messages  []UploadedMessage
}

// UploadedMessage is a message of an [Upload].
type UploadedMessage struct {
	ID        string
	Role      string // user or assistant
	Text      string
	Content   string // a JSON array of blocks; "" for one block with the text
	Model     string
	Usage     *runtimewire.Usage
	CreatedAt time.Time
}

// Results of an [Upload].
const (
	UploadCreated   = "created"
	UploadUpdated   = "updated"   // the messages are replaced: UpdatedAt is newer
	UploadUnchanged = "unchanged" // UpdatedAt is equal
	UploadStale     = "stale"     // UpdatedAt is older
	UploadInvalid   = "invalid"
)

// UploadResult is the result of an [Upload]. UpdatedAt is that of the stored session.
type UploadResult struct {
	Status    string
	UpdatedAt time.Time
	Reason    string // of an invalid one
}

// upload is an Upload that is being stored.
type upload struct {
	session  session
	messages []UploadedMessage
	result   *UploadResult
}

// Upload stores sessions in one transaction, and returns their results in the same order.
func (s *Service) Upload(ctx context.Context, in []Upload) ([]UploadResult, error) {
	results := make([]UploadResult, len(in))
	all := make([]upload, len(in))
	for i, u := range in {
		all[i] = u.rows()
		all[i].result = &results[i]
	}

	// Concurrent uploads lock the sessions in the same order. Sessions with the same id keep theirs.
	slices.SortStableFunc(all, func(a, b upload) int {
		return cmp.Or(cmp.Compare(a.session.UserID, b.session.UserID), cmp.Compare(a.session.ID, b.session.ID))
	})
	err := s.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		var sum quota // of the user
		for i, u := range all {
			if i == 0 || all[i-1].session.UserID != u.session.UserID {
				if sum, err = quotaOf(ctx, tx, u.session.TenantID, u.session.UserID); err != nil {
					return err
				}
			}

			if err := s.storeUpload(ctx, tx, u, &sum); err != nil {
				return err
			}
		}

		return nil
	})
	return results, err
}

func (in Upload) rows() upload {
	var u upload
	u.session = session{
		Key: ids.New(), TenantID: in.TenantID, UserID: in.UserID, ID: in.ID, UserName: in.UserName, AgentName: in.AgentName,
		Title: excerpt.Characters(strings.TrimSpace(in.Title), maxTitle), Source: SourcePush, Messages: int64(len(in.Messages)),
		CreatedAt: in.CreatedAt, UpdatedAt: in.UpdatedAt,
	}
	u.messages = in.Messages
	for i, m := range in.Messages {
		u.session.Size += sizeOf(m.row(i))
		if u.session.Title == "" && m.Role == roleUser {
			u.session.Title = titleOf(m.Text)
		}

		u.session.LastMessageAt = m.CreatedAt
	}

	return u
}

// row returns the message with that index.
func (m UploadedMessage) row(index int) message {
	return message{
		ID: m.ID, Seq: int64(index + 1), Role: m.Role, Status: relay.StatusCompleted, Text: m.Text, Content: m.Content,
		Model: m.Model, Usage: m.Usage, CreatedAt: m.CreatedAt,
	}
}

// insert inserts the messages. Few of them are in the form of rows at the same time.
func (u upload) insert(ctx context.Context, tx *sql.Tx) error {
	for from := 0; from < len(u.messages); from += insertWidth {
		rows := make([]message, 0, insertWidth)
		for i, m := range u.messages[from:min(from+insertWidth, len(u.messages))] {
			rows = append(rows, m.row(from+i))
		}

		if err := insertMessages(ctx, tx, u.session, rows...); err != nil {
			return err
		}
	}

	return nil
}

// storeUpload stores a new session, unless the user has too many.
func (s *Service) storeUpload(ctx context.Context, tx *sql.Tx, u upload, sum *quota) error {
	*u.result = UploadResult{Status: UploadCreated, UpdatedAt: u.session.UpdatedAt}
	created, err := insertSession(ctx, tx, u.session)
	switch {
	case err != nil:
		return err
	case !created:
		return s.replace(ctx, tx, u, sum)
	case !u.fits(sum, quota{sessions: 1, bytes: u.session.Size}):
		_, _, err := deleteSession(ctx, tx, u.session)
		return err
	}

	return u.insert(ctx, tx)
}

// fits adds to the stored amount of the user. If that is too much, it sets the result of the
// session and returns false.
func (u upload) fits(sum *quota, more quota) bool {
	next := quota{sessions: sum.sessions + more.sessions, bytes: sum.bytes + more.bytes}
	if err, ok := errors.AsType[*wire.Error](next.check()); ok && (more.sessions > 0 || more.bytes > 0) {
		*u.result = UploadResult{Status: UploadInvalid, Reason: err.Message}
		return false
	}

	*sum = next
	return true
}

// replace replaces an older session. Sessions that began in the hub are never replaced.
func (s *Service) replace(ctx context.Context, tx *sql.Tx, u upload, sum *quota) error {
	old, err := lockSession(ctx, tx, u.session.TenantID, u.session.UserID, u.session.ID)
	if err != nil {
		return err
	}

	now := s.store.Now()
	running, err := relay.InProgress(ctx, tx, old.TenantID, old.Key)
	if err != nil {
		return err
	}

	u.result.UpdatedAt = old.UpdatedAt
	switch {
	case old.Source != SourcePush:
		u.result.Status, u.result.Reason = UploadInvalid, "a session of the hub has this id"
	case old.UpdatedAt.Equal(u.session.UpdatedAt):
		u.result.Status = UploadUnchanged
	case old.UpdatedAt.After(u.session.UpdatedAt):
		u.result.Status = UploadStale
	case running:
		u.result.Status, u.result.Reason = UploadInvalid, "an answer is in progress in this session: push it again later"
	case !u.fits(sum, quota{bytes: u.session.Size - old.Size}):
		u.result.UpdatedAt = old.UpdatedAt
	default:
		u.result.Status, u.result.UpdatedAt = UploadUpdated, u.session.UpdatedAt
		u.session.Key = old.Key
		if err := relay.InsertTranscript(ctx, tx, old.transcript(), now); err != nil {
			return err
		}

		former := relay.AnswerRun{TenantID: old.TenantID, UserID: old.UserID, UserName: old.UserName, AgentName: old.AgentName, SessionKey: old.Key}
		if err := s.relay.EndFormer(ctx, tx, former); err != nil {
			return err
		}

		if err := replaceSession(ctx, tx, u.session); err != nil {
			return err
		}

		return u.insert(ctx, tx)
	}

	return nil
}
