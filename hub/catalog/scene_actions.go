package catalog

import "github.com/seed93082962/agenthost/auditlog"

var (
	actionCreateScene = auditlog.Define[sceneDetail]("agent.create_scene")
	actionUpdateScene = auditlog.Define[sceneUpdateDetail]("agent.update_scene")
	actionDeleteScene = auditlog.Define[sceneDetail]("agent.delete_scene")
)

type (
	sceneDetail struct {
		AgentName string `json:"agentName"`
		Order     int    `json:"order"`
		Enabled   bool   `json:"enabled"`
	}
	sceneUpdateDetail struct {
		Title         *auditlog.Change[string] `json:"title,omitempty"`
		TitleEN       *auditlog.Change[string] `json:"titleEn,omitempty"`
		Description   *auditlog.Change[string] `json:"description,omitempty"`
		DescriptionEN *auditlog.Change[string] `json:"descriptionEn,omitempty"`
		Icon          *auditlog.Change[string] `json:"icon,omitempty"`
		AgentName     *auditlog.Change[string] `json:"agentName,omitempty"`
		Prompt        *auditlog.Change[string] `json:"prompt,omitempty"` // hash and length
		Order         *auditlog.Change[int]    `json:"order,omitempty"`
		Enabled       *auditlog.Change[bool]   `json:"enabled,omitempty"`
	}
)

func updatedScene(from, to Scene) sceneUpdateDetail {
	return sceneUpdateDetail{
		Title: auditlog.Diff(from.Title, to.Title), TitleEN: auditlog.Diff(from.TitleEN, to.TitleEN),
		Description: auditlog.Diff(from.Description, to.Description), DescriptionEN: auditlog.Diff(from.DescriptionEN, to.DescriptionEN),
		Icon: auditlog.Diff(from.Icon, to.Icon), AgentName: auditlog.Diff(from.AgentName, to.AgentName),
		Prompt: auditlog.Diff(summary(from.Prompt), summary(to.Prompt)), Order: auditlog.Diff(from.Order, to.Order), Enabled: auditlog.Diff(from.Enabled, to.Enabled),
	}
}
