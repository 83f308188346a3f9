package hub

import (
	"github.com/seed93082962/agenthost/hub/chat"
	"github.com/seed93082962/agenthost/hub/chat/push"
	"github.com/seed93082962/agenthost/hub/chat/relay"
)

// openChat opens the chats.
func (h *Hub) openChat() (err error) {
	h.chat, err = chat.New(chat.Config{
		Store: h.store, Catalog: h.catalog, Deployments: h.deploys, Labels: h.aigc,
		Relay: relay.Config{UserAnswers: h.cfg.UserAnswers, AgentAnswers: h.cfg.AgentAnswers},
	})
	if err != nil {
		return err
	}
	cfg := push.Config{Chats: h.chat, Catalog: h.catalog, Key: h.cfg.ChatPushKey}
	if h.cfg.External {
		cfg.ResolveOrg = h.external.ResolveOrg
	}
	h.push, err = push.New(cfg)
	return err
}
