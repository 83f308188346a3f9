package builtin

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/runtime/tool"
)

type todo struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

type todoInput struct {
	Todos []todo `json:"todos"`
}

// newTodoWrite returns a tool without state: the list is in the conversation, where the model reads
// it.
func newTodoWrite(c *Config) tool.Tool {
	return tool.Typed(tool.Spec{
		Name: "TodoWrite",
		Description: `Records a list of tasks. Use it for work of three steps or more. Each call replaces the whole list.
Have one task in_progress at a time. Mark a task completed as soon as it is done, not before. Remove tasks that are no longer needed.`,
		InputSchema: inputSchema(`"todos"`, `
    "todos": {
      "type": "array",
      "description": "The whole list, in the order of the work",
      "items": {
        "type": "object",
        "properties": {
          "content": {"type": "string", "minLength": 1, "description": "The task in the imperative: Run the tests"},
          "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
          "activeForm": {"type": "string", "description": "The task in the present continuous: Running the tests"},
          "id": {"type": ["string", "integer"]},
          "priority": {"type": "string"}
        },
        "required": ["content", "status"],
        "additionalProperties": false
      }
    }`),
		ReadOnly: true,
	}, func(_ context.Context, in todoInput) (tool.Result, error) {
		var list strings.Builder
		done := 0
		for i, item := range in.Todos {
			if strings.TrimSpace(item.Content) == "" {
				return tool.Result{}, fmt.Errorf("task %d has no content", i+1)
			}

			var mark string
			switch item.Status {
			case "pending":
				mark = "[ ]"
			case "in_progress":
				mark = "[>]"
			case "completed":
				mark = "[x]"
				done++
			default:
				return tool.Result{}, fmt.Errorf("task %d has the status %q: use pending, in_progress or completed", i+1, item.Status)
			}

			fmt.Fprintf(&list, "\n%s %s", mark, item.Content)
		}

		if len(in.Todos) == 0 {
			return tool.Result{Output: "The list is empty now."}, nil
		}

		return c.result(fmt.Sprintf("The list has %d of %s completed.%s", done, plural(len(in.Todos), "task"), &list)), nil
	})
}
