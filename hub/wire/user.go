package wire

import "github.com/seed93082962/agenthost/rbac"

// InviteCheck is what the holder of an invitation may know of it.
type InviteCheck struct {
	Valid     bool      `json:"valid"`
	Role      rbac.Role `json:"role"`
	ExpiresAt Time      `json:"expires_at"`
}

// RegisterRequest creates the account of an invited user.
type RegisterRequest struct {
	// The token of the invitation.
	Token       string `json:"token"`
	Username    string `json:"username"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name,omitempty"`
}

// SetupRequest creates the first admin.
type SetupRequest struct {
	// An empty value counts as missing.
	Username    string `json:"username,omitempty"`
	Password    string `json:"password"`
	DisplayName string `json:"display_name,omitempty"`
	// The token that the hub printed at startup.
	SetupToken string `json:"setup_token,omitempty"`
}

// CreateInviteRequest creates an invitation.
type CreateInviteRequest struct {
	Role rbac.Role `json:"role"`
	// At most 500 characters; without control characters except tabs and line breaks, and without
	// the invisible characters of DisplayName. Surrounding white space is removed.
	Note string `json:"note,omitempty"`
}
