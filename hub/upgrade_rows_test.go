package hub_test

import (
	"time"
)

// further adds rows of the tables that openOrgs leaves empty.
func (all rows) further() {
	later := time.Now().Add(time.Hour).UnixMicro()
	member, chat := all["members"][0], all["chat_sessions"][0]
	revision := all["deployment_revisions"][0]
	hash := []byte("a hash of 32 bytes ............")
	for name, row := range map[string]map[string]any{
		"invites": {
			"id": "i1", "tenant_id": member["tenant_id"], "token_hash": hash, "role": "member", "created_by": member["id"],
			"created_by_name": "ada", "created_at": later, "expires_at": later,
		},
		"chat_runs": {
			"run_id": "r1", "tenant_id": chat["tenant_id"], "session_key": chat["key"], "worker_id": "w", "hub_id": "w", "alive_until": int64(1),
			"user_id": chat["user_id"], "agent_name": chat["agent_name"],
		},
		"chat_waits": {
			"session_key": chat["key"], "id": "w1", "tenant_id": chat["tenant_id"], "approvers": "admin", "user_id": chat["user_id"], "user_name": "u",
			"agent_name": chat["agent_name"], "session_id": chat["id"], "message_id": "m", "seq": int64(2), "kind": "approval", "tool_name": "Bash",
			"reason": "r", "executed": "ls", "digest": "d", "created_at": later,
		},
		"chat_files": {
			"tenant_id": chat["tenant_id"], "user_id": chat["user_id"], "id": "f1", "session_key": chat["key"], "media_type": "text/plain", "size": int64(1),
			"stored_at": later, "data": []byte("x"),
		},
		"chat_transcripts":      {"tenant_id": "alpha", "agent_name": "gone", "runtime_session": "s", "due_at": later, "keep_until": later},
		"deployment_tombstones": {"key": "alpha-gone", "uid": "gone", "deleted_at": later},
		"deployment_files":      {"artifact": "tools/x/x.ts", "revision_id": revision["id"]},
		"login_flows": {
			"state_hash": hash, "browser_hash": hash, "org": "alpha", "issuer": "i", "client_id": "c", "nonce_hash": hash, "verifier_enc": hash,
			"return_to": "", "expires_at": later, "callback": "",
		},
		"login_codes": {
			"code_hash": hash, "browser_hash": hash, "tenant_id": "alpha", "issuer": "i", "subject": "s", "session_id": "", "username": "u",
			"display_name": "d", "email": "", "is_admin": false, "expires_at": later,
		},
		"hubs":           {"id": "former", "beat": int64(1)},
		"usage_reserves": {"run_id": "r2", "tenant_id": "alpha", "agent_name": "same", "hub_id": "h", "alive_until": int64(1)},
		"logout_tokens":  {"token_hash": hash, "expires_at": later},
		"login_attempts": {"account_fold": "a", "remote_ip": "ip", "at1": int64(0), "at2": int64(0), "at3": int64(0), "at4": int64(0), "at5": later},
		"login_accounts": {"account_fold": "a", "began": later, "failures": int64(1)},
		"login_networks": {"network": "n", "began": later, "failures": int64(1)},
	} {
		if len(all[name]) == 0 {
			all[name] = append(all[name], row)
		}
	}
}
