package client

import (
	"context"
	"io"
	"iter"
	"net/url"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
)

// Audit reads the audit log. It requires an admin.
type Audit struct{ c *Client }

const auditPath = "/api/v1/admin/audit-logs"

// AuditFilter selects entries. Empty fields match every entry.
type AuditFilter struct {
	Category string
	Action   string
	User     string // a part of the id or the name
	From     time.Time
	To       time.Time // inclusive
}

func (f AuditFilter) query() url.Values {
	return url.Values{
		"category": {f.Category}, "action": {f.Action}, "user": {f.User}, "from": {instant(f.From)}, "to": {instant(f.To)},
	}
}

// List yields the entries of one snapshot, the newest first, without their hashes.
func (a Audit) List(ctx context.Context, f AuditFilter) iter.Seq2[auditlog.Entry, error] {
	return list[auditlog.Entry](ctx, a.c, auditPath, f.query())
}

// Export returns, as ndjson or csv, the entries after an id, or all of them without one, the oldest
// first and each with its hash: a line of ndjson is an [auditlog.Entry]. The caller closes it. An
// error of a read means that the export is incomplete.
func (a Audit) Export(ctx context.Context, f AuditFilter, format, afterID string) (io.ReadCloser, error) {
	query, media := f.query(), "application/x-ndjson"
	query.Set("format", format)
	query.Set("afterId", afterID)
	if format == "csv" {
		media = "text/csv"
	}

	return a.c.export(ctx, withQuery(auditPath+"/export", query), media)
}

// Verify computes the hash chain of the log again. A head is HeadID:HeadHash of an earlier result,
// or empty. A damaged log is a result, not an error.
func (a Audit) Verify(ctx context.Context, head string) (auditlog.Verification, error) {
	return get[auditlog.Verification](ctx, a.c, auditPath+"/verify", url.Values{"head": {head}})
}
