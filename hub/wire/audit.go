package wire

import "encoding/json"

// AuditHead identifies an entry of the log.
type AuditHead struct {
	ID   string `json:"id"`
	Hash string `json:"hash"`
	At   Time   `json:"at"`
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
	RemoteIP  string `json:"remoteIp"`
	UserAgent string `json:"userAgent"`
	CreatedAt Time   `json:"createdAt"`
}

// AuditVerification is the result of a verification of the log.
type AuditVerification struct {
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

// AuditLine is a line of an export.
type AuditLine struct {
	AuditEntry
	Hash string `json:"hash"`
}
