package chat

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed93082962/agenthost/internal/db"
)

// file is an image or a file of messages.
type file struct {
	ID        string // the hash of the type and the bytes
	MediaType string
	Size      int
	Data      []byte // nil for one that is stored
}

// scanFile reads id, media_type and size.
func scanFile(row db.Scanner) (file, error) {
	var f file
	return f, row.Scan(&f.ID, &f.MediaType, &f.Size)
}

// insertUpload stores a file that no message has yet, or begins the time of the stored one again.
func insertUpload(ctx context.Context, tx *sql.Tx, tenantID, userID string, f file, now time.Time) error {
	return db.Exec(ctx, tx, "insert upload", `INSERT INTO chat_files (tenant_id, user_id, id, media_type, size, stored_at, data) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (tenant_id, user_id, id) WHERE session_key IS NULL DO UPDATE SET stored_at = excluded.stored_at`,
		tenantID, userID, f.ID, f.MediaType, f.Size, db.Micros(now), f.Data)
}

// filesOf returns the stored files of a user with some ids, by their ids: those that no message has
// yet, and those of all sessions.
func filesOf(ctx context.Context, q db.Querier, tenantID, userID string, ids []string) (map[string]file, error) {
	found := map[string]file{}
	if len(ids) == 0 {
		return found, nil
	}

	in, args := db.In([]any{tenantID, userID}, ids)
	all, err := db.Collect(ctx, q, "read uploads", scanFile,
		`SELECT DISTINCT id, media_type, size FROM chat_files WHERE tenant_id = $1 AND user_id = $2 AND id IN `+in, args...)
	for _, f := range all {
		found[f.ID] = f
	}

	return found, err
}

// insertFile stores a file in a session unless it has it already. One without data is copied from
// the stored files of the user. It reports whether the session has the file.
func insertFile(ctx context.Context, tx *sql.Tx, in session, f file, now time.Time) (bool, error) {
	if f.Data != nil {
		return true, db.Exec(ctx, tx, "insert file of chat", `INSERT INTO chat_files (tenant_id, user_id, id, session_key, media_type, size, stored_at, data)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`, in.TenantID, in.UserID, f.ID, in.Key, f.MediaType, f.Size, db.Micros(now), f.Data)
	}

	err := db.Exec(ctx, tx, "copy file to chat", `INSERT INTO chat_files (tenant_id, user_id, id, session_key, media_type, size, stored_at, data)
		SELECT tenant_id, user_id, id, CAST($4 AS TEXT), media_type, size, CAST($5 AS BIGINT), data FROM chat_files WHERE tenant_id = $1 AND user_id = $2 AND id = $3 LIMIT 1
		ON CONFLICT DO NOTHING`, in.TenantID, in.UserID, f.ID, in.Key, db.Micros(now))
	if err == nil {
		err = db.Exec(ctx, tx, "delete used upload", `DELETE FROM chat_files WHERE tenant_id = $1 AND user_id = $2 AND id = $3 AND session_key IS NULL`,
			in.TenantID, in.UserID, f.ID)
	}

	if err != nil {
		return false, err
	}

	return db.Value[bool](ctx, tx, "read file of chat", `SELECT EXISTS (SELECT 1 FROM chat_files WHERE tenant_id = $1 AND session_key = $2 AND id = $3)`,
		in.TenantID, in.Key, f.ID)
}

// filesIn returns the files of a session with some ids, by their ids.
func filesIn(ctx context.Context, q db.Querier, in session, ids []string) (map[string]file, error) {
	found := map[string]file{}
	if len(ids) == 0 {
		return found, nil
	}

	list, args := db.In([]any{in.TenantID, in.Key}, ids)
	all, err := db.Collect(ctx, q, "list files of chat", scanFile,
		`SELECT id, media_type, size FROM chat_files WHERE tenant_id = $1 AND session_key = $2 AND id IN `+list, args...)
	for _, f := range all {
		found[f.ID] = f
	}

	return found, err
}

// countFiles returns the number of the files of a session.
func countFiles(ctx context.Context, q db.Querier, in session) (int64, error) {
	return db.Value[int64](ctx, q, "count files of chat", `SELECT COUNT(*) FROM chat_files WHERE tenant_id = $1 AND session_key = $2`, in.TenantID, in.Key)
}

// findFile returns a file of a session, without its bytes.
func findFile(ctx context.Context, q db.Querier, in session, id string) (file, error) {
	f, err := scanFile(q.QueryRowContext(ctx, `SELECT id, media_type, size FROM chat_files WHERE tenant_id = $1 AND session_key = $2 AND id = $3`,
		in.TenantID, in.Key, id))
	return f, db.WrapOne("read file of chat", err, errNoFile)
}

// readFile returns the bytes of a file of a session.
func readFile(ctx context.Context, q db.Querier, in session, id string) ([]byte, error) {
	var data []byte
	err := q.QueryRowContext(ctx, `SELECT data FROM chat_files WHERE tenant_id = $1 AND session_key = $2 AND id = $3`, in.TenantID, in.Key, id).Scan(&data)
	return data, db.WrapOne("read bytes of file", err, errNoFile)
}

// fileBytesOf returns what a user has stored in files, with fileOverhead for each.
func fileBytesOf(ctx context.Context, q db.Querier, tenantID, userID string) (int64, error) {
	return db.Value[int64](ctx, q, "count files of user", `SELECT CAST(COALESCE(SUM(size + $3), 0) AS BIGINT) FROM chat_files WHERE tenant_id = $1 AND user_id = $2`,
		tenantID, userID, fileOverhead)
}

// deleteUnused deletes the oldest uploads that no message has used since a time, at most most of
// them.
func deleteUnused(ctx context.Context, tx *sql.Tx, before time.Time, most int) (int64, error) {
	return db.Affected(ctx, tx, "delete unused uploads", `DELETE FROM chat_files WHERE session_key IS NULL AND stored_at < $1
		AND (tenant_id, user_id, id) IN (SELECT tenant_id, user_id, id FROM chat_files WHERE session_key IS NULL AND stored_at < $1 ORDER BY stored_at LIMIT $2)`,
		db.Micros(before), most)
}
