package catalog

import "github.com/seed93082962/agenthost/auditlog"

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

func updatedKnowledge(from, to Knowledge) knowledgeUpdateDetail {
	return knowledgeUpdateDetail{
		auditlog.Diff(from.Title, to.Title), auditlog.Diff(from.Description, to.Description), auditlog.Diff(from.DatasetID, to.DatasetID), auditlog.Diff(from.Enabled, to.Enabled),
	}
}
