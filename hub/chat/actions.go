package chat

import "github.com/seed93082962/agenthost/auditlog"

// actionDeleteChat is the only recorded action. The title is not recorded, because it comes from a
// message: the target has the name of the agent.
var actionDeleteChat = auditlog.Define[deleteChatDetail]("agent.delete_chat")

const targetChat = "chat_session"

type deleteChatDetail struct {
	Owner    string `json:"owner"` // the user name of the owner, who may not be the caller
	Source   string `json:"source"`
	Messages int64  `json:"messages"`
}
