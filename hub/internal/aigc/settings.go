package aigc

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/aigc/label"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Mode states where the explicit label of an answer appears.
type Mode = string

// The modes.
const (
	ModeHint    Mode = "hint"    // displayed next to an answer
	ModeAppend  Mode = "append"  // the last text of an answer
	ModePrepend Mode = "prepend" // the first text of an answer
	ModeOff     Mode = "off"
)

// Algorithm is the algorithm of signatures.
const Algorithm = "HMAC-SHA256"

const (
	maxCompanyName = 128 // characters
	maxText        = 200 // characters

	// DefaultText is the explicit label if none is configured.
	DefaultText = "本内容由人工智能生成"
)

// stored is a configuration as the table has it.
type stored struct {
	wire.AIGCLabeling
	Signed bool `json:"signed"`
}

func (st stored) view(keys []wire.AIGCKey, updated wire.Time) wire.AIGCSettings {
	signing := wire.AIGCSigning{Enabled: st.Signed, Algorithm: Algorithm, ActiveKID: activeKey(keys), Keys: append([]wire.AIGCKey{}, keys...)}
	return wire.AIGCSettings{AIGCLabeling: st.AIGCLabeling, Signing: signing, UpdatedAt: updated}
}

// Settings returns the configuration of the tenant, and false if there is none.
func (s *Service) Settings(ctx context.Context, caller api.Caller) (wire.AIGCSettings, bool, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return wire.AIGCSettings{}, false, err
	}

	st, updated, err := readConfig(ctx, s.store.Read(), caller.TenantID)
	if err != nil || st == nil {
		return wire.AIGCSettings{}, false, err
	}

	keys, err := keysOf(ctx, s.store.Read(), caller.TenantID)
	return st.view(keys, updated), err == nil, err
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)

// validate returns the configuration that in describes, or the faults by field.
func validate(in wire.AIGCRequest) (stored, error) {
	fields := api.Fields{}
	least := 0
	if in.Enabled {
		least = 1
	}

	st := stored{Signed: in.Signing.Enabled, AIGCLabeling: in.AIGCLabeling}
	st.CompanyName = fields.Line("companyName", in.CompanyName, least, maxCompanyName)
	st.Label = cmp.Or(in.Label, string(label.Generated))
	st.Explicit.Mode = cmp.Or(in.Explicit.Mode, ModeHint)
	st.Explicit.Text = fields.Text("explicit.text", cmp.Or(in.Explicit.Text, DefaultText), 1, maxText)
	checkCodes(fields, st)
	if kind := label.Certainty(st.Label); kind != label.Generated && kind != label.Possible && kind != label.Suspected {
		fields.Add("label", "must be 1, 2 or 3")
	}

	if !prefixForm.MatchString(st.ProduceIDPrefix) {
		fields.Add("produceIdPrefix", "must have at most 64 characters of A-Z, a-z, 0-9, '.', '_' and '-'")
	}

	switch st.Explicit.Mode {
	case ModeHint, ModeAppend, ModePrepend, ModeOff:
	default:
		fields.Add("explicit.mode", "must be hint, append, prepend or off")
	}

	if text := st.Explicit.Text; !containsOne(text, "人工智能", "AI") || !containsOne(text, "生成", "合成") {
		fields.Add("explicit.text", "must contain 人工智能 or AI, and 生成 or 合成")
	}

	if a := in.Signing.Algorithm; a != "" && a != Algorithm {
		fields.Add("signing.algorithm", "must be "+Algorithm)
	}

	return st, fields.Err()
}

// checkCodes checks the codes that identify the tenant.
func checkCodes(fields api.Fields, st stored) {
	check := func(field, value string, check func(string) error) {
		if value == "" {
			return
		}

		if err := check(value); err != nil {
			fields.Add(field, "must be valid: "+err.Error())
		}
	}
	check("uscc", st.USCC, label.CheckUSCC)
	check("contentProducer", st.ContentProducer, label.CheckProducer)
	check("propagator", st.Propagator, label.CheckProducer)
	switch {
	case st.Enabled && st.ContentProducer == "":
		fields.Add("contentProducer", "must not be empty")
	case st.USCC != "" && st.ContentProducer != "" && label.ProducerUSCC(st.ContentProducer) != st.USCC:
		fields.Add("contentProducer", "must contain the uscc")
	}
}

func containsOne(text string, words ...string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}

	return false
}

// SetSettings replaces the configuration of the tenant. If signing is enabled and no key is active,
// it creates one.
func (s *Service) SetSettings(ctx context.Context, caller api.Caller, in wire.AIGCRequest) (wire.AIGCSettings, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return wire.AIGCSettings{}, err
	}

	after, err := validate(in)
	if err != nil {
		return wire.AIGCSettings{}, err
	}

	var view wire.AIGCSettings
	err = s.store.Change(ctx, store.Change{Caller: caller}, func(tx *store.Tx) error {
		current, updated, err := lockConfig(ctx, tx, caller.TenantID)
		if err != nil {
			return err
		}

		var before stored
		if current != nil {
			before = *current
		}

		detail := compare(before, after)
		keys, err := keysOf(ctx, tx, caller.TenantID)
		if err != nil {
			return err
		}

		if after.Signed && activeKey(keys) == "" {
			k, err := s.addKey(ctx, tx)
			if err != nil {
				return err
			}

			detail.KID = k.KID
			keys = append([]wire.AIGCKey{k}, keys[:min(len(keys), maxListed-1)]...)
		}

		view = after.view(keys, updated)
		if current != nil && detail == (updateDetail{}) {
			return tx.Unchanged()
		}

		view.UpdatedAt = wire.Time{Time: tx.Now}
		tx.Record(actionUpdateConfig.Record(event(caller, after.CompanyName), detail))
		return writeConfig(ctx, tx, caller.TenantID, &after, tx.Now)
	})
	return view, err
}

// DeleteSettings deletes the configuration of the tenant and retires its key, without effect if
// there is none.
func (s *Service) DeleteSettings(ctx context.Context, caller api.Caller) error {
	return s.store.Change(ctx, store.Change{Caller: caller, Group: rbac.AdminWrite}, func(tx *store.Tx) error {
		st, _, err := lockConfig(ctx, tx, caller.TenantID)
		if err != nil || st == nil {
			return err
		}

		if err := writeConfig(ctx, tx, caller.TenantID, nil, tx.Now); err != nil {
			return err
		}

		kid, err := retireKey(ctx, tx, caller.TenantID, tx.Now)
		if err != nil {
			return err
		}

		tx.Record(actionDeleteConfig.Record(event(caller, st.CompanyName), deleteDetail{st.ContentProducer, kid}))
		return nil
	})
}

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
)

// compare returns the differences between two configurations.
func compare(before, after stored) updateDetail {
	return updateDetail{
		Enabled:         auditlog.Diff(before.Enabled, after.Enabled),
		CompanyName:     auditlog.Diff(before.CompanyName, after.CompanyName),
		USCC:            auditlog.Diff(before.USCC, after.USCC),
		ContentProducer: auditlog.Diff(before.ContentProducer, after.ContentProducer),
		Label:           auditlog.Diff(before.Label, after.Label),
		ProduceIDPrefix: auditlog.Diff(before.ProduceIDPrefix, after.ProduceIDPrefix),
		Propagator:      auditlog.Diff(before.Propagator, after.Propagator),
		ExplicitMode:    auditlog.Diff(before.Explicit.Mode, after.Explicit.Mode),
		ExplicitText:    auditlog.Diff(before.Explicit.Text, after.Explicit.Text),
		Signing:         auditlog.Diff(before.Signed, after.Signed),
	}
}
