package catalog

import (
	"context"
	"reflect"
	"regexp"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
)

// Knowledge is a knowledge set: a dataset that the system prompt of an agent lists with its
// description.
type Knowledge struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	DatasetID   string   `json:"datasetId"` // the key of the runtime's datasets
	Enabled     bool     `json:"enabled"`
	Version     int64    `json:"version"`
	CreatedAt   api.Time `json:"createdAt"`
	UpdatedAt   api.Time `json:"updatedAt"`
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

func (in KnowledgeInput) validate(name string) (Knowledge, error) {
	fields := api.Fields{}
	v := Knowledge{
		Name:        componentName(fields, name, in.Name, checkName),
		Title:       fields.Line("title", in.Title, 0, maxTitle),
		Description: fields.Text("description", in.Description, 0, maxDescription),
		DatasetID:   in.DatasetID,
		Enabled:     in.Enabled == nil || *in.Enabled,
	}
	if v.Title == "" {
		v.Title = v.Name
	}
	if !datasetID.MatchString(in.DatasetID) {
		fields.Add("datasetId", "must be 1 to 128 letters, digits and . _ : / -, and begin with a letter or digit")
	}
	return v, fields.Err()
}

// componentName returns the name of a component. name is that of the component that is replaced, or
// "" for a new one, whose name check checks.
func componentName(fields api.Fields, name, given string, check func(api.Fields, string, string)) string {
	switch {
	case name == "":
		check(fields, "name", given)
		return given
	case given != "" && given != name:
		fields.Add("name", "cannot be changed: create another one")
	}
	return name
}

var errNoKnowledge = api.NotFound.New("There is no such knowledge set.")

// KnowledgeSets returns the knowledge sets of the tenant by name.
func (s *Service) KnowledgeSets(ctx context.Context, caller api.Caller, page api.Page) (api.List[Knowledge], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[Knowledge]{}, err
	}
	return knowledgeOf(ctx, s.store.Read(), caller.TenantID, page)
}

// Knowledge returns a knowledge set, or api.NotFound.
func (s *Service) Knowledge(ctx context.Context, caller api.Caller, name string) (Knowledge, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Knowledge{}, err
	}
	return knowledgeByName(ctx, s.store.Read(), caller.TenantID, name)
}

// CreateKnowledge creates a knowledge set. It fails with api.NameTaken.
func (s *Service) CreateKnowledge(ctx context.Context, caller api.Caller, in KnowledgeInput) (Knowledge, error) {
	v, err := in.validate("")
	if err != nil {
		return Knowledge{}, err
	}
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		v.ID, v.Version, v.CreatedAt = ids.New(), 1, api.Time(tx.Now)
		v.UpdatedAt = v.CreatedAt
		if err := checkRoom(ctx, tx); err != nil {
			return err
		}
		if err := insertKnowledge(ctx, tx, caller.TenantID, v); err != nil {
			return err
		}
		tx.Record(actionCreateKnowledge.Record(v.event(caller), v.detail()))
		return nil
	})
	return v, err
}

// UpdateKnowledge replaces a knowledge set. It fails with api.NotFound and api.PreconditionFailed.
func (s *Service) UpdateKnowledge(ctx context.Context, caller api.Caller, name string, expected *int64, in KnowledgeInput) (Knowledge, error) {
	input, err := in.validate(name)
	if err != nil {
		return Knowledge{}, err
	}
	var v Knowledge
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := knowledgeByName(ctx, tx, caller.TenantID, name)
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
		v.Version, v.UpdatedAt = v.Version+1, api.Time(tx.Now)
		if err := updateKnowledge(ctx, tx, caller.TenantID, v); err != nil {
			return err
		}
		tx.Record(actionUpdateKnowledge.Record(v.event(caller), updatedKnowledge(before, v)))
		return nil
	})
	return v, err
}

// DeleteKnowledge deletes a knowledge set. It fails with api.NotFound, and with api.InUse if agents
// use it.
func (s *Service) DeleteKnowledge(ctx context.Context, caller api.Caller, name string) error {
	return s.change(ctx, caller, func(tx *store.Tx) error {
		v, err := knowledgeByName(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		agents, err := agentsBound(ctx, tx, caller.TenantID, kindKnowledge, name)
		if err != nil {
			return err
		}
		if err := inUse(api.InUse, agents); err != nil {
			return err
		}
		if err := deleteKnowledge(ctx, tx, caller.TenantID, v.ID); err != nil {
			return err
		}
		tx.Record(actionDeleteKnowledge.Record(v.event(caller), v.detail()))
		return nil
	})
}

func (v Knowledge) event(caller api.Caller) auditlog.Event {
	return target(caller.Event(), targetKnowledge, v.ID, v.Name)
}

func (v Knowledge) detail() knowledgeDetail { return knowledgeDetail{v.DatasetID, v.Enabled} }
