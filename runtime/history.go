package runtime

import (
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// checkHistory validates the history of a request. User and assistant alternate, so that the
// message of the request follows a message of the assistant.
func checkHistory(history []wire.Turn) error {
	if len(history) > wire.MaxHistory {
		return invalid(fmt.Sprintf("history must have at most %d entries", wire.MaxHistory))
	}
	for i, turn := range history {
		want := wire.RoleUser
		if i%2 == 1 {
			want = wire.RoleAssistant
		}
		switch {
		case turn.Role != want:
			return invalid(fmt.Sprintf("history[%d].role must be %q", i, want))
		case strings.TrimSpace(turn.Content) == "":
			return invalid(fmt.Sprintf("history[%d].content is required", i))
		}
	}
	if len(history)%2 == 1 {
		return invalid("history must end with an entry of the assistant")
	}
	return nil
}

// historyMessages returns the messages of a valid history.
func historyMessages(history []wire.Turn) []model.Message {
	messages := make([]model.Message, len(history))
	for i, turn := range history {
		messages[i] = model.UserText(turn.Content)
		messages[i].Role = model.Role(turn.Role)
	}
	return messages
}
