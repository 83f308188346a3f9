package wire

import "github.com/seed93082962/agenthost/rbac"

// User is an account.
type User struct {
	ID          string    `json:"id"`
	Username    string    `json:"username"`
	DisplayName string    `json:"displayName"`
	Role        rbac.Role `json:"role"`
	Status      string    `json:"status"`
	AuthSource  string    `json:"authSource"`
	// The identity provider of an external user, whom issuer and subject identify.
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
	// From the identity provider. Absent if there is none.
	Email string `json:"email,omitempty"`
	// The groups of the user at the identity provider, as of the last login. Absent if there are
	// none.
	Groups []string `json:"groups,omitempty"`
	// Null if the user never signed in.
	LastLoginAt Time `json:"lastLoginAt"`
	CreatedAt   Time `json:"createdAt"`
}

// CreateUserRequest creates a user, who must change the password at the first sign-in.
type CreateUserRequest struct {
	Username string    `json:"username"`
	Password string    `json:"password"`
	Role     rbac.Role `json:"role"`
	// Defaults to the username.
	DisplayName string `json:"displayName,omitempty"`
}

// ChangeUserRequest changes the fields that are not nil.
type ChangeUserRequest struct {
	Role   *rbac.Role `json:"role,omitempty"`
	Status *string    `json:"status,omitempty"`
	// Not empty.
	DisplayName *string `json:"displayName,omitempty"`
}

// Invite is an invitation.
type Invite struct {
	ID   string    `json:"id"`
	Role rbac.Role `json:"role"`
	// Absent if there is none.
	Note      string `json:"note,omitempty"`
	ExpiresAt Time   `json:"expiresAt"`
	// Absent unless used.
	UsedAt Time `json:"usedAt,omitzero"`
	// The username of the new user, which is kept after the user is deleted. Absent unless used.
	UsedBy string `json:"usedBy,omitempty"`
	// The username of the admin.
	CreatedBy string `json:"createdBy"`
	CreatedAt Time   `json:"createdAt"`
	// Only a pending invitation can be used.
	Status string `json:"status"`
}

// NewInvite is an invitation with its token, which is returned only once.
type NewInvite struct {
	ID   string    `json:"id"`
	Role rbac.Role `json:"role"`
	// Absent if there is none.
	Note      string `json:"note,omitempty"`
	ExpiresAt Time   `json:"expiresAt"`
	// The username of the admin.
	CreatedBy string `json:"createdBy"`
	CreatedAt Time   `json:"createdAt"`
	Status    string `json:"status"`
	Token     string `json:"token"`
	// The registration page.
	URL string `json:"url"`
}

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
