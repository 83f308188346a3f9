package hub

import (
	"context"

	"github.com/seed93082962/agenthost/hub/chat"
)

// openChat opens the chats.
func (h *Hub) openChat() (err error) {
	h.chat, err = chat.New(chat.Config{
		DB: h.db, Audit: h.log, Agent: h.catalog.AgentEnabled, Endpoint: h.chatEndpoint, Label: h.aigc.Label,
		PushKey: h.cfg.ChatPushKey, ResolveOrg: h.resolveOrg(), UserAnswers: h.cfg.UserAnswers, AgentAnswers: h.cfg.AgentAnswers,
		Now: h.cfg.Now, Logger: h.cfg.Logger,
	})
	return err
}

// chatEndpoint returns the runtime of a deployed agent.
func (h *Hub) chatEndpoint(ctx context.Context, tenantID, agentName string) (chat.Endpoint, error) {
	e, err := h.deploys.Endpoint(ctx, tenantID, agentName)
	return chat.Endpoint{URL: e.URL, APIKey: string(e.APIKey), AgentID: e.AgentID}, err
}

// resolveOrg returns how the organization of a pushed chat is found, nil for built-in mode.
func (h *Hub) resolveOrg() func(ctx context.Context, org string) (string, error) {
	if !h.cfg.External {
		return nil
	}
	return h.external.ResolveOrg
}
