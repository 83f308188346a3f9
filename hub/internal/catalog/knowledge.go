package catalog

import (
	"regexp"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

var datasetID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

func applyKnowledge(fields api.Fields, in wire.KnowledgeRequest, v *wire.Knowledge) error {
	applyTexts(fields, &v.Component, in.Name, in.Title, in.Description, checkName)
	v.DatasetID = in.DatasetID
	v.Enabled = in.Enabled == nil || *in.Enabled
	if !datasetID.MatchString(in.DatasetID) {
		fields.Add("datasetId", "must be 1 to 128 letters, digits and . _ : / -, and begin with a letter or digit")
	}

	return nil
}

var (
	actionCreateKnowledge = auditlog.Define[knowledgeDetail]("agent.create_knowledge")
	actionUpdateKnowledge = auditlog.Define[knowledgeUpdateDetail]("agent.update_knowledge")
	actionDeleteKnowledge = auditlog.Define[knowledgeDetail]("agent.delete_knowledge")
)

type (
	knowledgeDetail struct {
		DatasetID string `json:"datasetId"`
		Enabled   bool   `json:"enabled"`
	}
	knowledgeUpdateDetail struct {
		Title       *auditlog.Change[string] `json:"title,omitempty"`
		Description *auditlog.Change[string] `json:"description,omitempty"`
		DatasetID   *auditlog.Change[string] `json:"datasetId,omitempty"`
		Enabled     *auditlog.Change[bool]   `json:"enabled,omitempty"`
	}
)

func (s *Service) knowledge() *Components[wire.Knowledge, wire.KnowledgeRequest] {
	return &Components[wire.Knowledge, wire.KnowledgeRequest]{
		s: s, kind: kindKnowledge, table: "knowledge", order: "name", path: "/api/v1/admin/knowledge",
		none: wire.NotFound.New("There is no such knowledge set."), inUse: code.InUse, apply: applyKnowledge,
		common: func(v *wire.Knowledge) *wire.Component { return &v.Component },
		columns: func(v *wire.Knowledge) []column {
			return []column{{"dataset_id", &v.DatasetID}, {"enabled", &v.Enabled}}
		},
		content: func(v wire.Knowledge) ([]any, error) { return []any{v.DatasetID, v.Description, v.Enabled}, nil },
		create:  recordOf[wire.Knowledge](actionCreateKnowledge), remove: recordOf[wire.Knowledge](actionDeleteKnowledge),
		update: recordChanges[wire.Knowledge](actionUpdateKnowledge),
	}
}
