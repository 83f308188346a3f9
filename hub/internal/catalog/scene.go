package catalog

import (
	"context"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
)

const maxOrder = 1_000_000

func applyScene(fields api.Fields, in wire.SceneRequest, v *wire.Scene) error {
	applyTexts(fields, &v.Component, in.Name, in.Title, in.Description, checkName)
	v.TitleEN = fields.Line("titleEn", in.TitleEN, 0, maxTitle)
	v.DescriptionEN = fields.Text("descriptionEn", in.DescriptionEN, 0, maxDescription)
	v.Icon = fields.Line("icon", in.Icon, 0, maxIcon)
	v.AgentName = fields.Line("agentName", in.AgentName, 1, maxTitle)
	v.Prompt = checkPrompt(fields, "prompt", in.Prompt)
	v.Order = in.Order
	v.Enabled = in.Enabled == nil || *in.Enabled
	if in.Order < -maxOrder || in.Order > maxOrder {
		fields.Add("order", fmt.Sprintf("must be from %d to %d", -maxOrder, maxOrder))
	}

	return nil
}

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

// maxListedPrompt bounds the prompt of a scene in a list, in bytes.
const maxListedPrompt = 16 << 10

func (s *Service) scenes() *Components[wire.Scene, wire.SceneRequest] {
	changes := recordChanges[wire.Scene](actionUpdateScene)
	return &Components[wire.Scene, wire.SceneRequest]{
		s: s, kind: kindScene, table: "scenes", order: "position, name, id", long: "prompt", path: "/api/v1/admin/scenes",
		none: wire.NotFound.New("There is no such scene."), apply: applyScene,
		common: func(v *wire.Scene) *wire.Component { return &v.Component },
		columns: func(v *wire.Scene) []column {
			return []column{
				{"title_en", &v.TitleEN}, {"description_en", &v.DescriptionEN}, {"icon", &v.Icon},
				{"agent_name", &v.AgentName}, {"prompt", &v.Prompt}, {"position", &v.Order}, {"enabled", &v.Enabled},
			}
		},
		prepare: func(ctx context.Context, tx *store.Tx, _ wire.Scene, v *wire.Scene) error {
			found, err := exists(ctx, tx, "agents", tx.Caller.TenantID, v.AgentName)
			if err == nil && !found {
				return api.Fields{"agentName": quote(v.AgentName) + " does not exist"}
			}

			return err
		},
		show: func(_ context.Context, all []wire.Scene, list bool) error {
			for i := range all {
				if list && len(all[i].Prompt) > maxListedPrompt {
					all[i].Prompt, all[i].PromptOmitted = "", true
				}
			}

			return nil
		},
		hidden: s.hiddenAgents,
		permit: func(ctx context.Context, caller api.Caller, v wire.Scene) error {
			_, err := s.AgentEnabled(ctx, caller, v.AgentName)
			return err
		},
		create: recordOf[wire.Scene](actionCreateScene), remove: recordOf[wire.Scene](actionDeleteScene),
		update: func(e auditlog.Event, before, after wire.Scene) auditlog.Record {
			before.Prompt, after.Prompt = settings.Summary(before.Prompt), settings.Summary(after.Prompt)
			return changes(e, before, after)
		},
	}
}

// EnabledScenes returns the enabled scenes whose agent is enabled, in their order.
func (s *Service) EnabledScenes(ctx context.Context, caller api.Caller, page api.Page) (api.List[wire.Scene], error) {
	return s.Scenes.list(ctx, caller, page, usableScene)
}

// EnabledScene returns a scene, or wire.NotFound if there is none or it or its agent is disabled.
func (s *Service) EnabledScene(ctx context.Context, caller api.Caller, name string) (wire.Scene, error) {
	v, err := s.Scenes.Get(ctx, caller, name)
	if err != nil {
		return wire.Scene{}, err
	}

	enabled, err := s.AgentEnabled(ctx, caller, v.AgentName)
	if err != nil {
		return wire.Scene{}, err
	}

	if !enabled || !v.Enabled {
		return wire.Scene{}, s.Scenes.none
	}

	return v, nil
}

func (s *Service) sceneRoutes() []api.Route {
	return append(s.Scenes.routes(),
		publicRoute("/api/v1/scenes", api.ListOf(s.EnabledScenes)),
		publicRoute("/api/v1/scenes/:name", showOf(s.EnabledScene)),
	)
}
