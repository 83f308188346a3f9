package aigc

import (
	"cmp"
	"context"
	"database/sql"
	"regexp"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/aigc/label"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
)

// Mode states where the explicit label of an answer appears.
type Mode string

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

// Explicit is the label that a reader sees.
type Explicit struct {
	Mode Mode   `json:"mode"`
	Text string `json:"text"`
}

// stored is a configuration as the table has it.
type stored struct {
	Enabled         bool       `json:"enabled"`
	CompanyName     string     `json:"companyName"`
	USCC            string     `json:"uscc"`
	ContentProducer string     `json:"contentProducer"`
	Label           label.Kind `json:"label"`
	ProduceIDPrefix string     `json:"produceIdPrefix"`
	Propagator      string     `json:"propagator,omitempty"`
	Explicit        Explicit   `json:"explicit"`
	Signed          bool       `json:"signed"`
}

// Settings is the configuration of a tenant.
type Settings struct {
	Enabled         bool       `json:"enabled"`
	CompanyName     string     `json:"companyName"`
	USCC            string     `json:"uscc"`            // see [label.CheckUSCC]; "" if unknown
	ContentProducer string     `json:"contentProducer"` // see [label.CheckProducer]
	Label           label.Kind `json:"label"`
	ProduceIDPrefix string     `json:"produceIdPrefix"`
	Propagator      string     `json:"propagator,omitempty"` // the code of the tenant as a propagator
	Explicit        Explicit   `json:"explicit"`
	Signing         Signing    `json:"signing"`
	UpdatedAt       api.Time   `json:"updatedAt"`
}

// Signing describes the signatures of labels.
type Signing struct {
	Enabled   bool   `json:"enabled"`
	Algorithm string `json:"algorithm"`           // the constant Algorithm
	ActiveKID string `json:"activeKid,omitempty"` // of the key that signs; "" if signing was never enabled
	Keys      []Key  `json:"keys"`                // the newest first
}

func (st stored) view(keys []key, updated time.Time) Settings {
	v := Settings{
		Enabled: st.Enabled, CompanyName: st.CompanyName, USCC: st.USCC, ContentProducer: st.ContentProducer, Label: st.Label,
		ProduceIDPrefix: st.ProduceIDPrefix, Propagator: st.Propagator, Explicit: st.Explicit, UpdatedAt: api.Time(updated),
		Signing: Signing{Enabled: st.Signed, Algorithm: Algorithm, Keys: []Key{}},
	}
	for _, k := range keys {
		if k.active() {
			v.Signing.ActiveKID = k.KID
		}
		v.Signing.Keys = append(v.Signing.Keys, k.view())
	}
	return v
}

// Settings returns the configuration of the tenant, and false if there is none.
func (s *Service) Settings(ctx context.Context, caller api.Caller) (Settings, bool, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Settings{}, false, err
	}
	st, updated, err := readConfig(ctx, s.db.Read(), caller.TenantID)
	if err != nil || st == nil {
		return Settings{}, false, err
	}
	keys, err := keysOf(ctx, s.db.Read(), caller.TenantID)
	return st.view(keys, updated), err == nil, err
}

// Input is a configuration as a user writes it.
type Input struct {
	Enabled         bool   `json:"enabled"`
	CompanyName     string `json:"companyName"`     // required if enabled
	USCC            string `json:"uscc"`            // the unified social credit code. Optional.
	ContentProducer string `json:"contentProducer"` // required if enabled; contains USCC
	Label           string `json:"label"`           // Defaults to 1.
	ProduceIDPrefix string `json:"produceIdPrefix"` // of each ProduceID: A-Z, a-z, 0-9, '.', '_' and '-'
	Propagator      string `json:"propagator"`      // has the form of ContentProducer. Optional.
	Explicit        struct {
		Mode Mode   `json:"mode"` // Defaults to ModeHint.
		Text string `json:"text"` // Defaults to DefaultText.
	} `json:"explicit"`
	Signing struct {
		Enabled   bool   `json:"enabled"`
		Algorithm string `json:"algorithm"` // Defaults to Algorithm, the only value.
	} `json:"signing"`
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)

// validate returns the configuration that in describes, or the faults by field.
func (in Input) validate() (stored, error) {
	fields := api.Fields{}
	least := 0
	if in.Enabled {
		least = 1
	}
	st := stored{
		Enabled: in.Enabled, CompanyName: fields.Line("companyName", in.CompanyName, least, maxCompanyName),
		USCC: in.USCC, ContentProducer: in.ContentProducer, Label: label.Kind(cmp.Or(in.Label, string(label.Generated))),
		ProduceIDPrefix: in.ProduceIDPrefix, Propagator: in.Propagator, Signed: in.Signing.Enabled,
		Explicit: Explicit{Mode: cmp.Or(in.Explicit.Mode, ModeHint), Text: fields.Text("explicit.text", cmp.Or(in.Explicit.Text, DefaultText), 1, maxText)},
	}
	checkCodes(fields, st)
	if st.Label != label.Generated && st.Label != label.Possible && st.Label != label.Suspected {
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
func (s *Service) SetSettings(ctx context.Context, caller api.Caller, in Input) (Settings, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Settings{}, err
	}
	after, err := in.validate()
	if err != nil {
		return Settings{}, err
	}
	var view Settings
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		current, updated, err := lockConfig(ctx, tx, caller.TenantID)
		if err != nil {
			return err
		}
		var before stored
		if current != nil {
			before = *current
		}
		detail, changed := compare(before, after)
		keys, err := keysOf(ctx, tx, caller.TenantID)
		if err != nil {
			return err
		}
		if after.Signed && activeKey(keys) == "" {
			k, err := s.addKey(ctx, tx, caller.TenantID, keys)
			if err != nil {
				return err
			}
			detail.KID, keys = k.KID, append([]key{k}, keys...)
		}
		if changed || current == nil || detail.KID != "" {
			updated = s.now()
			if err := writeConfig(ctx, tx, caller.TenantID, &after, updated); err != nil {
				return err
			}
			if err := s.record(ctx, tx, actionUpdateConfig.Record(event(caller, after), detail)); err != nil {
				return err
			}
		}
		view = after.view(keys, updated)
		return nil
	})
	return view, err
}

// DeleteSettings deletes the configuration of the tenant and retires its key, without effect if
// there is none.
func (s *Service) DeleteSettings(ctx context.Context, caller api.Caller) error {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		st, _, err := lockConfig(ctx, tx, caller.TenantID)
		if err != nil || st == nil {
			return err
		}
		now := s.now()
		if err := writeConfig(ctx, tx, caller.TenantID, nil, now); err != nil {
			return err
		}
		kid, err := retireKey(ctx, tx, caller.TenantID, now)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, actionDeleteConfig.Record(event(caller, *st), deleteDetail{st.ContentProducer, kid}))
	})
}
