package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/url"
	"time"
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

// List yields the entries of one snapshot, the newest first.
func (a Audit) List(ctx context.Context, f AuditFilter) iter.Seq2[AuditEntry, error] {
	return list[AuditEntry](ctx, a.c, auditPath, f.query())
}

// Export returns, as ndjson or csv, the entries after an id, or all of them without one, the oldest first and each
// with its hash. The caller closes it. An error of a read means that the export is incomplete.
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
func (a Audit) Verify(ctx context.Context, head string) (AuditCheck, error) {
	return get[AuditCheck](ctx, a.c, auditPath+"/verify", url.Values{"head": {head}})
}

// AuditHead identifies an entry of the log.
type AuditHead struct {
	ID   string    `json:"id"`
	Hash string    `json:"hash"`
	At   time.Time `json:"at"`
}

// AuditEntry is an entry of the audit log.
type AuditEntry struct {
	// A decimal number that may be above 2^53-1: the position in the tenant's log.
	ID string `json:"id"`
	// The organization, or default in built-in mode.
	TenantID string `json:"tenantId"`
	// The acting user. Empty if unknown, as for a login with an unknown name.
	UserID string `json:"userId"`
	// The username at that time. For a failed login, the submitted name, truncated, with U+FFFD
	// for control characters.
	UserName string `json:"userName"`
	// The part of action before the dot.
	Category string `json:"category"`
	Action   string `json:"action"`
	// The kind of the target. Empty without a target.
	TargetType string `json:"targetType"`
	// Empty for routes.
	TargetID string `json:"targetId"`
	// The username of a user, the note of an invitation, the name of a token or a provider, the
	// company of a configuration of labels, method and path of a route, the agent of a chat
	// session. For a session the username.
	TargetName string `json:"targetName"`
	Status     string `json:"status"`
	// Depends on the action; null without one.
	Detail json.RawMessage `json:"detail"`
	// The address of the client, also behind trusted proxies. Empty for commands on the machine of
	// the hub.
	RemoteIP  string    `json:"remoteIp"`
	UserAgent string    `json:"userAgent"`
	CreatedAt time.Time `json:"createdAt"`
}

// AuditCheck is the result of a verification of the log.
type AuditCheck struct {
	OK bool `json:"ok"`
	// The number of entries that are as they were written.
	Checked int64 `json:"checked"`
	// The id of the oldest entry; 0 if there is none.
	FirstID string `json:"firstId"`
	// The id of the newest entry; 0 if nothing was ever written.
	HeadID     string     `json:"headId"`
	HeadHash   string     `json:"headHash"`
	Checkpoint *AuditHead `json:"checkpoint,omitempty"`
	// The first entry that is missing, is not as it was written, or exists where nothing was
	// written; one more than headId if the data about the entries is damaged. Absent if ok,
	// and with the reason head_pruned.
	FirstBadID string `json:"firstBadId,omitempty"`
	// Absent if ok. entry_changed, entry_missing, entry_added: see firstBadId.
	// log_damaged: the index of the log is not as it was written. head_changed: the stored
	// head does.
	Reason string `json:"reason,omitempty"`
}
