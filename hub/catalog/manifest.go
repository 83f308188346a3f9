package catalog

import (
	"context"

	"github.com/seed93082962/agenthost/hub/api"
)

// Manifest lists the enabled agents of a tenant with hashes, so that a client reads only what
// changed.
type Manifest struct {
	ContentHash string          `json:"contentHash"` // changes if one of the agents changes
	Agents      []ManifestEntry `json:"agents"`      // by name
}

// ManifestEntry is an agent in a [Manifest].
type ManifestEntry struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Icon        string   `json:"icon,omitempty"`
	IsDefault   bool     `json:"isDefault"`
	ContentHash string   `json:"contentHash"`
	UpdatedAt   api.Time `json:"updatedAt"`
}

func manifestOf(agents []Agent) (Manifest, error) {
	m := Manifest{Agents: []ManifestEntry{}}
	hashes := map[string]string{}
	for _, a := range agents {
		if a.Enabled {
			m.Agents = append(m.Agents, ManifestEntry{
				Name: a.Name, Title: a.Title, Description: a.Description, Icon: a.Icon, IsDefault: a.IsDefault,
				ContentHash: a.ContentHash, UpdatedAt: a.UpdatedAt,
			})
			hashes[a.Name] = a.ContentHash
		}
	}
	var err error
	m.ContentHash, err = digest(hashes)
	return m, err
}

// Manifest returns the manifest of the tenant. The caller must not modify it.
func (s *Service) Manifest(ctx context.Context, caller api.Caller) (Manifest, error) {
	sn, err := s.snapshot(ctx, caller.TenantID)
	if err != nil {
		return Manifest{}, err
	}
	return sn.manifest, nil
}

// EnabledAgents returns the enabled agents of the tenant by name. The caller must not modify their
// slices and maps.
func (s *Service) EnabledAgents(ctx context.Context, caller api.Caller, page api.Page) (api.List[Agent], error) {
	sn, err := s.snapshot(ctx, caller.TenantID)
	if err != nil {
		return api.List[Agent]{}, err
	}
	return sn.page(page, func(a *Agent) bool { return a.Enabled }), nil
}

// EnabledAgent returns an agent, or api.NotFound if there is none or it is disabled.
func (s *Service) EnabledAgent(ctx context.Context, caller api.Caller, name string) (Agent, error) {
	sn, err := s.snapshot(ctx, caller.TenantID)
	if err != nil {
		return Agent{}, err
	}
	if a := sn.agent(name); a != nil && a.Enabled {
		return *a, nil
	}
	return Agent{}, errNoAgent
}
