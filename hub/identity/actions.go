package identity

import "github.com/seed93082962/agenthost/auditlog"

// The audit actions of this package. A detail lists every field that an entry of the action can
// contain, and never a secret.
var (
	actionSetup          = auditlog.Define[auditlog.None]("auth.setup")
	actionLogin          = auditlog.Define[sessionDetail]("auth.login")
	actionLoginFailed    = auditlog.Define[loginFailedDetail]("auth.login_failed")
	actionLogout         = auditlog.Define[sessionDetail]("auth.logout")
	actionRefreshReuse   = auditlog.Define[sessionDetail]("auth.refresh_reuse")
	actionChangePassword = auditlog.Define[changePasswordDetail]("auth.change_password")
	actionRegister       = auditlog.Define[registerDetail]("auth.register")
	actionRevokeSession  = auditlog.Define[sessionDetail]("auth.revoke_session")

	actionExternalLogin     = auditlog.Define[externalLoginDetail]("auth.external_login")
	actionBackchannelLogout = auditlog.Define[backchannelLogoutDetail]("auth.backchannel_logout")

	actionRetireKey = auditlog.Define[retireKeyDetail]("auth.retire_key")

	actionCreateUser    = auditlog.Define[createUserDetail]("user.create")
	actionUpdateRole    = auditlog.Define[updateRoleDetail]("user.update_role")
	actionUpdateStatus  = auditlog.Define[updateStatusDetail]("user.update_status")
	actionUpdateProfile = auditlog.Define[updateProfileDetail]("user.update_profile")
	actionDeleteUser    = auditlog.Define[deleteUserDetail]("user.delete")
	actionResetPassword = auditlog.Define[resetPasswordDetail]("user.reset_password")

	actionCreateInvite = auditlog.Define[inviteDetail]("invite.create")
	actionRevokeInvite = auditlog.Define[inviteDetail]("invite.revoke")

	actionIssueToken  = auditlog.Define[tokenDetail]("token.issue")
	actionRevokeToken = auditlog.Define[revokeTokenDetail]("token.revoke")
)

// Values of Event.TargetType.
const (
	targetUser    = "user"
	targetSession = "session"
	targetInvite  = "invite"
	targetToken   = "token"
	targetKey     = "signing_key"
	targetOrg     = "organization"
)

// reasonSetupToken is the reason of a failed login that was a setup with an incorrect token.
const reasonSetupToken = "invalid_setup_token"

type (
	sessionDetail struct {
		SessionID string `json:"sessionId"`
	}
	loginFailedDetail struct {
		Reason string `json:"reason"` // invalid_credentials, account_disabled, reasonSetupToken, or that of package external
	}
	externalLoginDetail struct {
		SessionID string `json:"sessionId"`
		Issuer    string `json:"issuer"`
		Created   bool   `json:"created"` // the first login of the user
		Role      string `json:"role"`
	}
	backchannelLogoutDetail struct {
		Issuer        string `json:"issuer"`
		SessionsEnded int    `json:"sessionsEnded"`
		TokensRevoked int    `json:"tokensRevoked,omitempty"`
	}
	changePasswordDetail struct {
		Reason        string `json:"reason,omitempty"` // of a failure: invalid_credentials
		SessionsEnded int    `json:"sessionsEnded"`
	}
	registerDetail struct {
		InviteID string `json:"inviteId"`
		Role     string `json:"role"`
	}
	retireKeyDetail struct {
		Retired []string `json:"retired"` // ids of the keys whose tokens are rejected
	}
	createUserDetail struct {
		Role        string `json:"role"`
		DisplayName string `json:"displayName"`
	}
	updateRoleDetail struct {
		Role auditlog.Change[string] `json:"role"`
	}
	updateStatusDetail struct {
		Status        auditlog.Change[string] `json:"status"`
		SessionsEnded int                     `json:"sessionsEnded"`
	}
	updateProfileDetail struct {
		DisplayName auditlog.Change[string] `json:"displayName"`
	}
	deleteUserDetail struct {
		Role string `json:"role"`
	}
	resetPasswordDetail struct {
		SessionsEnded  int  `json:"sessionsEnded"`
		TokensRevoked  int  `json:"tokensRevoked"`
		InvitesRevoked int  `json:"invitesRevoked"`
		Offline        bool `json:"offline"` // on the hub's machine, by hub reset-password
	}
	inviteDetail struct {
		Role      string `json:"role"`
		Note      string `json:"note"`
		ExpiresAt string `json:"expiresAt"` // an api.Time
	}
	tokenDetail struct {
		Prefix    string  `json:"prefix"`            // the first characters, which identify it to its owner
		ExpiresAt *string `json:"expiresAt"`         // an api.Time; null for a token that does not expire
		Offline   bool    `json:"offline,omitempty"` // on the hub's machine, by hub admin-token
	}
	revokeTokenDetail struct {
		Owner     string  `json:"owner"` // the username of the owner, who may not be the caller
		Prefix    string  `json:"prefix"`
		ExpiresAt *string `json:"expiresAt"`
	}
)
