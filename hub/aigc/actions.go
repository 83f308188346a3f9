package aigc

import (
	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
)

// The audit actions of this package.
var (
	actionUpdateConfig = auditlog.Define[updateDetail]("aigc.update_config")
	actionDeleteConfig = auditlog.Define[deleteDetail]("aigc.delete_config")
	actionRotateKey    = auditlog.Define[rotateDetail]("aigc.rotate_key")
)

type (
	updateDetail struct {
		Enabled         *auditlog.Change[bool]   `json:"enabled,omitempty"`
		CompanyName     *auditlog.Change[string] `json:"companyName,omitempty"`
		USCC            *auditlog.Change[string] `json:"uscc,omitempty"`
		ContentProducer *auditlog.Change[string] `json:"contentProducer,omitempty"`
		Label           *auditlog.Change[string] `json:"label,omitempty"`
		ProduceIDPrefix *auditlog.Change[string] `json:"produceIdPrefix,omitempty"`
		Propagator      *auditlog.Change[string] `json:"propagator,omitempty"`
		ExplicitMode    *auditlog.Change[Mode]   `json:"explicitMode,omitempty"`
		ExplicitText    *auditlog.Change[string] `json:"explicitText,omitempty"`
		Signing         *auditlog.Change[bool]   `json:"signing,omitempty"`
		KID             string                   `json:"kid,omitempty"` // of the key that was created
	}
	deleteDetail struct {
		ContentProducer string `json:"contentProducer"`
		KID             string `json:"kid,omitempty"` // of the key that was retired
	}
	rotateDetail struct {
		KID         string `json:"kid"`
		PreviousKID string `json:"previousKid"`
	}
)

// event returns the event of a change of the tenant's configuration.
func event(caller api.Caller, st stored) auditlog.Event {
	e := caller.Event()
	e.TargetType, e.TargetID, e.TargetName = "aigc_config", caller.TenantID, st.CompanyName
	return e
}

// compare returns the differences between two configurations, and whether there are any.
func compare(before, after stored) (detail updateDetail, changed bool) {
	detail = updateDetail{
		Enabled: auditlog.Diff(before.Enabled, after.Enabled), CompanyName: auditlog.Diff(before.CompanyName, after.CompanyName), USCC: auditlog.Diff(before.USCC, after.USCC),
		ContentProducer: auditlog.Diff(before.ContentProducer, after.ContentProducer), Label: auditlog.Diff(string(before.Label), string(after.Label)),
		ProduceIDPrefix: auditlog.Diff(before.ProduceIDPrefix, after.ProduceIDPrefix), Propagator: auditlog.Diff(before.Propagator, after.Propagator),
		ExplicitMode: auditlog.Diff(before.Explicit.Mode, after.Explicit.Mode), ExplicitText: auditlog.Diff(before.Explicit.Text, after.Explicit.Text),
		Signing: auditlog.Diff(before.Signed, after.Signed),
	}
	return detail, detail != updateDetail{}
}
