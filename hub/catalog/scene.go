package catalog

import (
	"context"
	"fmt"
	"reflect"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Scene is a prompt that users can start an agent with.
type Scene struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Title         string `json:"title"`
	TitleEN       string `json:"titleEn,omitempty"`
	Description   string `json:"description"`
	DescriptionEN string `json:"descriptionEn,omitempty"`
	Icon          string `json:"icon,omitempty"`
	AgentName     string `json:"agentName"`
	Prompt        string `json:"prompt"`

	// PromptOmitted reports that Prompt is "" in a list, because it has more than 16 KiB.
	PromptOmitted bool `json:"promptOmitted,omitempty"`

	Order     int      `json:"order"` // of the list, ascending
	Enabled   bool     `json:"enabled"`
	Version   int64    `json:"version"`
	CreatedAt api.Time `json:"createdAt"`
	UpdatedAt api.Time `json:"updatedAt"`
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

func (in SceneInput) validate(name string) (Scene, error) {
	fields := api.Fields{}
	v := Scene{
		Name:          componentName(fields, name, in.Name, checkName),
		Title:         fields.Line("title", in.Title, 0, maxTitle),
		TitleEN:       fields.Line("titleEn", in.TitleEN, 0, maxTitle),
		Description:   fields.Text("description", in.Description, 0, maxDescription),
		DescriptionEN: fields.Text("descriptionEn", in.DescriptionEN, 0, maxDescription),
		Icon:          fields.Line("icon", in.Icon, 0, maxIcon),
		AgentName:     fields.Line("agentName", in.AgentName, 1, maxTitle),
		Prompt:        checkPrompt(fields, "prompt", in.Prompt),
		Order:         in.Order,
		Enabled:       in.Enabled == nil || *in.Enabled,
	}
	if v.Title == "" {
		v.Title = v.Name
	}
	if in.Order < -maxOrder || in.Order > maxOrder {
		fields.Add("order", fmt.Sprintf("must be from %d to %d", -maxOrder, maxOrder))
	}
	return v, fields.Err()
}

var errNoScene = api.NotFound.New("There is no such scene.")

// Scenes returns the scenes of the tenant in their order, including disabled ones.
func (s *Service) Scenes(ctx context.Context, caller api.Caller, page api.Page) (api.List[Scene], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[Scene]{}, err
	}
	return scenesOf(ctx, s.store.Read(), caller.TenantID, page)
}

// EnabledScenes returns the enabled scenes whose agent is enabled, in their order.
func (s *Service) EnabledScenes(ctx context.Context, caller api.Caller, page api.Page) (api.List[Scene], error) {
	return enabledScenes(ctx, s.store.Read(), caller.TenantID, "", page)
}

// Scene returns a scene, which may be disabled, or api.NotFound.
func (s *Service) Scene(ctx context.Context, caller api.Caller, name string) (Scene, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Scene{}, err
	}
	return sceneByName(ctx, s.store.Read(), caller.TenantID, name)
}

// EnabledScene returns a scene, or api.NotFound if there is none or it or its agent is disabled.
func (s *Service) EnabledScene(ctx context.Context, caller api.Caller, name string) (Scene, error) {
	found, err := enabledScenes(ctx, s.store.Read(), caller.TenantID, name, api.Page{Number: 1, Size: 1})
	if err != nil {
		return Scene{}, err
	}
	if len(found.Items) == 0 {
		return Scene{}, errNoScene
	}
	return found.Items[0], nil
}

// CreateScene creates a scene. It fails with api.NameTaken.
func (s *Service) CreateScene(ctx context.Context, caller api.Caller, in SceneInput) (Scene, error) {
	v, err := in.validate("")
	if err != nil {
		return Scene{}, err
	}
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		v.ID, v.Version, v.CreatedAt = ids.New(), 1, api.Time(tx.Now)
		v.UpdatedAt = v.CreatedAt
		if err := checkSceneAgent(ctx, tx, caller.TenantID, v.AgentName); err != nil {
			return err
		}
		if err := checkRoom(ctx, tx); err != nil {
			return err
		}
		if err := insertScene(ctx, tx, caller.TenantID, v); err != nil {
			return err
		}
		tx.Record(actionCreateScene.Record(v.event(caller), v.detail()))
		return nil
	})
	return v, err
}

// UpdateScene replaces a scene. It fails with api.NotFound and api.PreconditionFailed.
func (s *Service) UpdateScene(ctx context.Context, caller api.Caller, name string, expected *int64, in SceneInput) (Scene, error) {
	input, err := in.validate(name)
	if err != nil {
		return Scene{}, err
	}
	var v Scene
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := sceneByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if err := store.CheckVersion(expected, before.Version); err != nil {
			return err
		}
		v = input
		v.ID = before.ID
		v.Version = before.Version
		v.CreatedAt = before.CreatedAt
		v.UpdatedAt = before.UpdatedAt
		if reflect.DeepEqual(v, before) {
			return store.ErrUnchanged
		}
		if err := checkSceneAgent(ctx, tx, caller.TenantID, v.AgentName); err != nil {
			return err
		}
		v.Version, v.UpdatedAt = v.Version+1, api.Time(tx.Now)
		if err := updateScene(ctx, tx, caller.TenantID, v); err != nil {
			return err
		}
		tx.Record(actionUpdateScene.Record(v.event(caller), updatedScene(before, v)))
		return nil
	})
	return v, err
}

// DeleteScene deletes a scene, or fails with api.NotFound.
func (s *Service) DeleteScene(ctx context.Context, caller api.Caller, name string) error {
	return s.change(ctx, caller, func(tx *store.Tx) error {
		v, err := sceneByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if err := deleteScene(ctx, tx, caller.TenantID, v.ID); err != nil {
			return err
		}
		tx.Record(actionDeleteScene.Record(v.event(caller), v.detail()))
		return nil
	})
}

// checkSceneAgent returns api.Fields if the agent of a scene does not exist.
func checkSceneAgent(ctx context.Context, tx *store.Tx, tenantID, name string) error {
	ok, err := agentExists(ctx, tx, tenantID, name)
	if err == nil && !ok {
		return api.Fields{"agentName": quote(name) + " does not exist"}
	}
	return err
}

func (v Scene) event(caller api.Caller) auditlog.Event {
	return target(caller.Event(), targetScene, v.ID, v.Name)
}

func (v Scene) detail() sceneDetail { return sceneDetail{v.AgentName, v.Order, v.Enabled} }
