package user

import (
	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/store"
)

// The audit actions of this package. A detail lists every field that an entry of the action can
// contain, and never a secret.
var (
	actionSetup    = auditlog.Define[auditlog.None]("auth.setup")
	actionRegister = auditlog.Define[registerDetail]("auth.register")

	actionCreateUser    = auditlog.Define[createUserDetail]("user.create")
	actionUpdateRole    = auditlog.Define[updateRoleDetail]("user.update_role")
	actionUpdateStatus  = auditlog.Define[updateStatusDetail]("user.update_status")
	actionUpdateProfile = auditlog.Define[updateProfileDetail]("user.update_profile")
	actionDeleteUser    = auditlog.Define[deleteUserDetail]("user.delete")
	actionResetPassword = auditlog.Define[resetPasswordDetail]("user.reset_password")

	actionCreateInvite = auditlog.Define[inviteDetail]("invite.create")
	actionRevokeInvite = auditlog.Define[inviteDetail]("invite.revoke")

	actionLoginFailed = auditlog.Define[loginFailedDetail]("auth.login_failed")
)

// Values of Event.TargetType.
const (
	targetUser   = "user"
	targetInvite = "invite"
)

// RecordFailure records a login or a setup that failed, unless only a sample is recorded. The
// reason is invalid_credentials, account_disabled, invalid_setup_token, or that of package
// external.
func RecordFailure(tx *store.Tx, e auditlog.Event, reason string, counted password.Counted) {
	if counted.Entries > 0 {
		tx.Record(actionLoginFailed.Record(e, loginFailedDetail{Reason: reason, Attempts: counted.Sampled()}))
	}
}

type (
	loginFailedDetail struct {
		Reason   string `json:"reason"`
		Attempts int    `json:"attempts,omitempty"` // that the entry represents, if more than one
	}
	registerDetail struct {
		InviteID string `json:"inviteId"`
		Role     string `json:"role"`
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
)
