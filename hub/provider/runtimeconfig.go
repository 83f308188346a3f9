package provider

import (
	"context"

	"github.com/seed93082962/agenthost/hub/api"
)

// RuntimeConfig is an enabled provider as a runtime configures it. Its key is masked: a runtime
// receives its keys with its deployment.
type RuntimeConfig struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Protocol  string  `json:"protocol"`
	AuthStyle string  `json:"authStyle"`
	BaseURL   string  `json:"baseUrl"`
	MaskedKey string  `json:"maskedKey"`
	HasKey    bool    `json:"hasKey"`
	KeyState  string  `json:"keyState"`
	Models    []Model `json:"models"`
}

// RuntimeConfigs returns the enabled ones of Providers.
func (s *Service) RuntimeConfigs(ctx context.Context, caller api.Caller, page api.Page) (api.List[RuntimeConfig], error) {
	found, total, err := s.list(ctx, caller, page, false)
	list := api.List[RuntimeConfig]{Total: total}
	for _, p := range found {
		v := s.view(p)
		list.Items = append(list.Items, RuntimeConfig{v.ID, v.Name, v.Protocol, v.AuthStyle, v.BaseURL, v.MaskedKey, v.HasKey, v.KeyState, v.Models})
	}
	return list, err
}
