package catalog

import (
	"cmp"
	"context"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Scene is a prompt that users can start an agent with.
type Scene struct {
	Component

	TitleEN       string `json:"titleEn,omitempty"`
	DescriptionEN string `json:"descriptionEn,omitempty"`
	Icon          string `json:"icon,omitempty"`
	AgentName     string `json:"agentName"`
	Prompt        string `json:"prompt"`

	// PromptOmitted reports that Prompt is "" in a list, because it has more than 16 KiB.
	PromptOmitted bool `json:"promptOmitted,omitempty"`

	Order   int  `json:"order"` // of the list, ascending
	Enabled bool `json:"enabled"`
}

// SceneInput is a scene. Without a title, the title is the name. A scene is enabled by default.
type SceneInput struct {
	Name          string `json:"name"` // of an existing scene, "" or its name
	Title         string `json:"title"`
	TitleEN       string `json:"titleEn"`
	Description   string `json:"description"`
	DescriptionEN string `json:"descriptionEn"`
	Icon          string `json:"icon"`
	AgentName     string `json:"agentName"`
	Prompt        string `json:"prompt"`
	Order         int    `json:"order"`
	Enabled       *bool  `json:"enabled"`
}

const maxOrder = 1_000_000

func (in SceneInput) apply(fields api.Fields, v *Scene) error {
	v.Name = checkedName(fields, v.Name, in.Name, "one", checkName)
	v.Title = fields.Line("title", in.Title, 0, maxTitle)
	v.TitleEN = fields.Line("titleEn", in.TitleEN, 0, maxTitle)
	v.Description = fields.Text("description", in.Description, 0, maxDescription)
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

func updatedScene(from, to Scene) sceneUpdateDetail {
	return sceneUpdateDetail{
		Title: auditlog.Diff(from.Title, to.Title), TitleEN: auditlog.Diff(from.TitleEN, to.TitleEN),
		Description: auditlog.Diff(from.Description, to.Description), DescriptionEN: auditlog.Diff(from.DescriptionEN, to.DescriptionEN),
		Icon: auditlog.Diff(from.Icon, to.Icon), AgentName: auditlog.Diff(from.AgentName, to.AgentName),
		Prompt: auditlog.Diff(settings.Summary(from.Prompt), settings.Summary(to.Prompt)), Order: auditlog.Diff(from.Order, to.Order), Enabled: auditlog.Diff(from.Enabled, to.Enabled),
	}
}

// maxListedPrompt bounds the prompt of a scene in a list, in bytes.
const maxListedPrompt = 16 << 10

func (s *Service) scenes() *Components[Scene, SceneInput, *Scene] {
	detail := func(_, v Scene) sceneDetail {
		return sceneDetail{AgentName: v.AgentName, Order: v.Order, Enabled: v.Enabled}
	}
	return &Components[Scene, SceneInput, *Scene]{
		s: s, kind: kindScene, table: "scenes", order: "position, name, id", long: "prompt", path: "/api/v1/admin/scenes",
		none: wire.NotFound.New("There is no such scene."),
		columns: func(v *Scene) []column {
			return v.columns(column{"title_en", &v.TitleEN}, column{"description_en", &v.DescriptionEN}, column{"icon", &v.Icon},
				column{"agent_name", &v.AgentName}, column{"prompt", &v.Prompt}, column{"position", &v.Order}, column{"enabled", &v.Enabled})
		},
		prepare: func(ctx context.Context, tx *store.Tx, _ Scene, v *Scene) error {
			found, err := exists(ctx, tx, "agents", tx.Caller.TenantID, v.AgentName)
			if err == nil && !found {
				return api.Fields{"agentName": quote(v.AgentName) + " does not exist"}
			}

			return err
		},
		show: func(_ context.Context, all []Scene, list bool) error {
			for i := range all {
				if list && len(all[i].Prompt) > maxListedPrompt {
					all[i].Prompt, all[i].PromptOmitted = "", true
				}
			}

			return nil
		},
		hidden: s.hiddenAgents,
		permit: func(ctx context.Context, caller api.Caller, v Scene) error {
			_, err := s.AgentEnabled(ctx, caller, v.AgentName)
			return err
		},
		create: recordOf(actionCreateScene, detail), remove: recordOf(actionDeleteScene, detail),
		update: recordOf(actionUpdateScene, updatedScene),
	}
}

// EnabledScenes returns the enabled scenes whose agent is enabled, in their order.
func (s *Service) EnabledScenes(ctx context.Context, caller api.Caller, page api.Page) (api.List[Scene], error) {
	return s.Scenes.list(ctx, caller, page, usableScene)
}

// EnabledScene returns a scene, or wire.NotFound if there is none or it or its agent is disabled.
func (s *Service) EnabledScene(ctx context.Context, caller api.Caller, name string) (Scene, error) {
	v, err := s.Scenes.Get(ctx, caller, name)
	if err != nil {
		return Scene{}, err
	}

	if enabled, err := s.AgentEnabled(ctx, caller, v.AgentName); !enabled || !v.Enabled {
		return Scene{}, cmp.Or(err, error(s.Scenes.none))
	}

	return v, nil
}

func (s *Service) sceneRoutes() []api.Route {
	return append(s.Scenes.routes(),
		publicRoute("/api/v1/scenes", api.ListOf(s.EnabledScenes)),
		publicRoute("/api/v1/scenes/:name", showOf(s.EnabledScene)),
	)
}
