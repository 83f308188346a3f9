// Package bodies has the JSON types of the hub's API whose fields are parameters and results of the
// methods of hub/client, so that no program needs them, and those that only the console reads. The
// others are in hub/wire.
package bodies

import (
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// LoginRequest signs a user in with a password.
type LoginRequest struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// That of an earlier sign-in of the user on this device. An invalid one has no effect.
	DeviceToken string `json:"device_token,omitempty"`
}

// RefreshRequest exchanges a refresh token, or the code of a program with its verifier.
type RefreshRequest struct {
	RefreshToken string `json:"refresh_token"`
	// Of the challenge of a code.
	Verifier string `json:"code_verifier,omitempty"`
}

// LogoutRequest ends a session.
type LogoutRequest struct {
	RefreshToken string `json:"refresh_token,omitempty"`
}

// AuthorizeProgramRequest begins a session for a program on the same computer.
type AuthorizeProgramRequest struct {
	// The SHA-256 hash, in base64url, of a verifier that only the program knows: S256 of RFC 7636.
	Challenge string `json:"code_challenge"`
}

// ChangePasswordRequest changes the password of the caller.
type ChangePasswordRequest struct {
	OldPassword string `json:"old_password"`
	NewPassword string `json:"new_password"`
}

// ExchangeRequest completes a login with an identity provider.
type ExchangeRequest struct {
	Code string `json:"code"`
}

// ChatSessionRequest creates a session.
type ChatSessionRequest struct {
	// The default is the start of the first message.
	Title string `json:"title,omitempty"`
}

// ChatMessageIDs is the response to a message whose answer continues without a stream.
type ChatMessageIDs struct {
	UserMessageID      string `json:"userMessageId"`
	AssistantMessageID string `json:"assistantMessageId"`
}

// DeployRequest deploys an agent.
type DeployRequest struct {
	// Deploys an unchanged configuration again.
	Force bool `json:"force,omitempty"`
}

// RollbackRequest deploys a former revision of an agent again.
type RollbackRequest struct {
	// One of the stored revisions. The default is the last one before the present one that was
	// ready.
	Revision *int64 `json:"revision,omitempty"`
}

// Cancelling is a run that is being cancelled. Its answer ends with a cancelled event.
type Cancelling struct {
	RunID string `json:"runId"`
	State string `json:"state"`
}

// Log has the last lines of the log of a runtime, the oldest first.
type Log struct {
	Lines []string `json:"lines"`
}

// ProviderKey is the key of a provider.
type ProviderKey struct {
	APIKey string `json:"apiKey"`
}

// Organization is an organization whose users can sign in.
type Organization struct {
	Org        string `json:"org"`
	Registered bool   `json:"registered"`
}

// CreateInviteRequest creates an invitation.
type CreateInviteRequest struct {
	Role rbac.Role `json:"role"`
	// At most 500 characters; without control characters except tabs and line breaks, and without
	// the invisible characters of DisplayName. Surrounding white space is removed.
	Note string `json:"note,omitempty"`
}

// OneTimePassword is a password that the user must change at the next sign-in.
type OneTimePassword struct {
	Password string `json:"password"`
}

// BindingsRequest replaces the components of a kind that an agent mounts.
type BindingsRequest struct {
	Items []string `json:"items"`
}

// KnowledgeBindingsRequest replaces the knowledge sets that an agent mounts.
type KnowledgeBindingsRequest struct {
	Items []wire.KnowledgeRef `json:"items"`
}

// Settings is what the operator of a hub has set. It has no secrets.
type Settings struct {
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	// sqlite or postgres.
	Database string `json:"database"`
	// The organization of the caller.
	Organization string `json:"organization"`
	// builtin or external, as in LoginMode.
	AuthMode  string `json:"authMode"`
	PublicURL string `json:"publicUrl"`
	// The base of the public addresses of agents.
	GatewayURL string `json:"gatewayUrl"`
	// Whether the hub changes the routes of the gateway.
	GatewayManaged bool `json:"gatewayManaged"`
	// process, docker or kubernetes, or none.
	Deployer string         `json:"deployer"`
	Limits   SettingsLimits `json:"limits"`
}

// SettingsLimits are the limits that the operator of a hub has set.
type SettingsLimits struct {
	// The number of answers in progress.
	AnswersPerUser  int `json:"answersPerUser"`
	AnswersPerAgent int `json:"answersPerAgent"`
	// Within a minute, to each hub. There is no limit if it is 0.
	RequestsPerUser    int `json:"requestsPerUser"`
	RequestsPerAddress int `json:"requestsPerAddress"`
	// Days until audit entries, and the usage of single runs, are deleted. They are kept if it is
	// 0.
	AuditDays int `json:"auditDays"`
	UsageDays int `json:"usageDays"`
	// The most of the deployment settings of an agent. An absent field has no bound.
	MaxMemory    string `json:"maxMemory,omitempty"`
	MaxCPU       string `json:"maxCpu,omitempty"`
	MaxProcesses int64  `json:"maxProcesses,omitempty"`
	MaxReplicas  int64  `json:"maxReplicas,omitempty"`
}
