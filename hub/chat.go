package hub

import (
	"context"
	"encoding/json"

	"github.com/seed93082962/agenthost/hub/chat"
)

// openChat opens the chats.
func (h *Hub) openChat() (err error) {
	h.chat, err = chat.New(chat.Config{
		DB: h.db, Audit: h.audit, Agent: h.catalog.AgentEnabled, Endpoint: h.chatEndpoint, Label: h.chatLabel,
		Authenticate: h.identity.Authenticate, PushKey: h.cfg.ChatPushKey, ResolveOrg: h.resolveOrg(), Now: h.cfg.Now, Logger: h.cfg.Logger,
	})
	return err
}

// chatEndpoint returns the runtime of a deployed agent.
func (h *Hub) chatEndpoint(ctx context.Context, tenantID, agentName string) (chat.Endpoint, error) {
	e, err := h.deploys.Endpoint(ctx, tenantID, agentName)
	return chat.Endpoint{URL: e.URL, APIKey: string(e.APIKey), AgentID: e.AgentID}, err
}

// chatLabel returns the labels of a new answer.
func (h *Hub) chatLabel(ctx context.Context, tenantID string) (chat.Label, error) {
	marker, err := h.aigc.Label(ctx, tenantID)
	if err != nil || marker == nil {
		return chat.Label{}, err
	}
	implicit, err := json.Marshal(marker.Label)
	return chat.Label{Implicit: implicit, Mode: chat.NoticeMode(marker.Mode), Notice: marker.Text}, err
}

// resolveOrg returns how the organization of a pushed chat is found, nil for built-in mode.
func (h *Hub) resolveOrg() func(ctx context.Context, org string) (string, error) {
	if !h.cfg.External {
		return nil
	}
	return h.external.ResolveOrg
}
