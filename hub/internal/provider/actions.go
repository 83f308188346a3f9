package provider

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The audit actions of this package.
var (
	actionCreate    = auditlog.Define[createDetail]("provider.create")
	actionUpdate    = auditlog.Define[updateDetail]("provider.update")
	actionDelete    = auditlog.Define[deleteDetail]("provider.delete")
	actionRevealKey = auditlog.Define[auditlog.None]("provider.reveal_key")
	actionProbe     = auditlog.Define[probeDetail]("provider.probe")
)

// targetProvider is a value of Event.TargetType.
const targetProvider = "provider"

// Values of updateDetail.APIKey.
const (
	keyAdded    = "added"
	keyReplaced = "replaced"
	keyRemoved  = "removed"
)

// maxRecorded bounds the ids of models in a detail.
const maxRecorded = 100

type (
	createDetail struct {
		Protocol  string   `json:"protocol"`
		AuthStyle string   `json:"authStyle"`
		BaseURL   string   `json:"baseUrl"` // without its query
		Settings  []string `json:"settings,omitempty"`
		Models    []string `json:"models"` // the first maxRecorded ids
		Enabled   bool     `json:"enabled"`
		HasKey    bool     `json:"hasKey"`
	}
	updateDetail struct {
		Name      *auditlog.Change[string]   `json:"name,omitempty"`
		Protocol  *auditlog.Change[string]   `json:"protocol,omitempty"`
		AuthStyle *auditlog.Change[string]   `json:"authStyle,omitempty"`
		BaseURL   *auditlog.Change[string]   `json:"baseUrl,omitempty"`
		Settings  *auditlog.Change[[]string] `json:"settings,omitempty"` // without the values of secrets
		Values    []string                   `json:"values,omitempty"`   // keys of the secrets that were replaced, such as headers.X-Token
		Models    *auditlog.Change[[]string] `json:"models,omitempty"`   // as above; equal if other fields of a model changed
		Enabled   *auditlog.Change[bool]     `json:"enabled,omitempty"`
		APIKey    string                     `json:"apiKey,omitempty"` // keyAdded, keyReplaced or keyRemoved
	}
	deleteDetail struct {
		Protocol string `json:"protocol"`
		BaseURL  string `json:"baseUrl"`
	}
	probeDetail struct {
		Protocol   string `json:"protocol"`
		AuthStyle  string `json:"authStyle"`
		BaseURL    string `json:"baseUrl"`
		HTTPStatus int    `json:"httpStatus,omitempty"`
		ErrorCode  string `json:"errorCode,omitempty"`
	}
)

// compare returns the differences between two states of a provider, with their settings, without
// that of the key.
func compare(before, after row, from, to agent.Provider) updateDetail {
	from.APIKey, to.APIKey = "", ""
	detail := updateDetail{
		Name:      auditlog.Diff(before.Name, after.Name),
		Protocol:  auditlog.Diff(before.Protocol, after.Protocol),
		AuthStyle: auditlog.Diff(before.AuthStyle, after.AuthStyle),
		BaseURL:   auditlog.Diff(before.BaseURL, after.BaseURL),
		Settings:  settings.Changed(lines(from), lines(to)),
		Values:    settings.Replaced(from, to),
		Enabled:   auditlog.Diff(before.Enabled, after.Enabled),
	}
	if detail.Settings == nil && detail.Values == nil && !sameJSON(from.Body, to.Body) {
		detail.Values = []string{"body"} // of another structure, whose lines are the same
	}

	if !slices.Equal(before.Models, after.Models) {
		detail.Models = &auditlog.Change[[]string]{From: modelIDs(before.Models), To: modelIDs(after.Models)}
	}

	return detail
}

// sameJSON reports whether two values have the same JSON.
func sameJSON(a, b any) bool {
	one, errA := json.Marshal(a)
	two, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(one, two)
}

// lines returns the settings that have no column, without the values of secrets.
func lines(p agent.Provider) []string {
	return slices.DeleteFunc(settings.Lines(settings.Mask(withoutColumns(p))), func(line string) bool { return strings.HasPrefix(line, "protocol: ") })
}

// modelIDs returns the ids of the first models: an audit entry has a maximum size.
func modelIDs(models []wire.Model) []string {
	all := make([]string, 0, maxRecorded)
	for _, m := range models[:min(len(models), maxRecorded)] {
		all = append(all, m.ID)
	}

	return all
}
