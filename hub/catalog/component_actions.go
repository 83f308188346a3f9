package catalog

import "github.com/seed93082962/agenthost/auditlog"

var (
	actionCreateTool  = auditlog.Define[fileDetail]("agent.create_tool")
	actionUpdateTool  = auditlog.Define[toolUpdateDetail]("agent.update_tool")
	actionReplaceTool = auditlog.Define[fileReplaceDetail]("agent.replace_file_tool")
	actionDeleteTool  = auditlog.Define[fileDetail]("agent.delete_tool")

	actionCreateSkill  = auditlog.Define[skillDetail]("agent.create_skill")
	actionUpdateSkill  = auditlog.Define[skillUpdateDetail]("agent.update_skill")
	actionReplaceSkill = auditlog.Define[skillReplaceDetail]("agent.replace_file_skill")
	actionDeleteSkill  = auditlog.Define[skillDetail]("agent.delete_skill")
)

const (
	targetTool  = "tool"
	targetSkill = "skill"
)

type (
	fileDetail struct {
		FileName string `json:"fileName"`
		Hash     string `json:"hash"`
		Size     int64  `json:"size"`
	}
	fileReplaceDetail struct {
		FileName *auditlog.Change[string] `json:"fileName,omitempty"`
		Hash     *auditlog.Change[string] `json:"hash,omitempty"`
		Size     *auditlog.Change[int64]  `json:"size,omitempty"`
	}
	toolUpdateDetail struct {
		Title         *auditlog.Change[string] `json:"title,omitempty"`
		Description   *auditlog.Change[string] `json:"description,omitempty"`
		DescriptionEN *auditlog.Change[string] `json:"descriptionEn,omitempty"`
	}
	skillDetail struct {
		Type string `json:"type"`
		Hash string `json:"hash"`
		Size int64  `json:"size"`
	}
	skillUpdateDetail struct {
		Type          *auditlog.Change[string] `json:"type,omitempty"`
		Title         *auditlog.Change[string] `json:"title,omitempty"`
		Description   *auditlog.Change[string] `json:"description,omitempty"`
		DescriptionEN *auditlog.Change[string] `json:"descriptionEn,omitempty"`
	}
	skillReplaceDetail struct {
		Type          *auditlog.Change[string] `json:"type,omitempty"`
		Title         *auditlog.Change[string] `json:"title,omitempty"`
		Description   *auditlog.Change[string] `json:"description,omitempty"`
		DescriptionEN *auditlog.Change[string] `json:"descriptionEn,omitempty"`
		Hash          *auditlog.Change[string] `json:"hash,omitempty"`
		Size          *auditlog.Change[int64]  `json:"size,omitempty"`
	}
)
