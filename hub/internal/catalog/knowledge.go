package catalog

import (
	"regexp"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Knowledge is a knowledge set: a dataset that the system prompt of an agent lists with its
// description.
type Knowledge struct {
	Component

	DatasetID string `json:"datasetId"` // the key of the runtime's datasets
	Enabled   bool   `json:"enabled"`
}

// KnowledgeInput is a knowledge set. Without a title, the title is the name. It is enabled by
// default.
type KnowledgeInput struct {
	Name        string `json:"name"` // of an existing knowledge set, "" or its name
	Title       string `json:"title"`
	Description string `json:"description"`
	DatasetID   string `json:"datasetId"`
	Enabled     *bool  `json:"enabled"`
}

var datasetID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

func (in KnowledgeInput) apply(fields api.Fields, v *Knowledge) error {
	v.Name = checkedName(fields, v.Name, in.Name, "one", checkName)
	v.Title = fields.Line("title", in.Title, 0, maxTitle)
	v.Description = fields.Text("description", in.Description, 0, maxDescription)
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

func (s *Service) knowledge() *Components[Knowledge, KnowledgeInput, *Knowledge] {
	detail := func(_, v Knowledge) knowledgeDetail {
		return knowledgeDetail{DatasetID: v.DatasetID, Enabled: v.Enabled}
	}
	return &Components[Knowledge, KnowledgeInput, *Knowledge]{
		s: s, kind: kindKnowledge, table: "knowledge", order: "name", path: "/api/v1/admin/knowledge",
		none: wire.NotFound.New("There is no such knowledge set."), inUse: wire.InUse,
		columns: func(v *Knowledge) []column {
			return v.columns(column{"dataset_id", &v.DatasetID}, column{"enabled", &v.Enabled})
		},
		content: func(v Knowledge) ([]any, error) { return []any{v.DatasetID, v.Description, v.Enabled}, nil },
		create:  recordOf(actionCreateKnowledge, detail), remove: recordOf(actionDeleteKnowledge, detail),
		update: recordOf(actionUpdateKnowledge, func(from, to Knowledge) knowledgeUpdateDetail {
			return knowledgeUpdateDetail{
				Title: auditlog.Diff(from.Title, to.Title), Description: auditlog.Diff(from.Description, to.Description),
				DatasetID: auditlog.Diff(from.DatasetID, to.DatasetID), Enabled: auditlog.Diff(from.Enabled, to.Enabled),
			}
		}),
	}
}
