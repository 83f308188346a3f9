package builtin

import (
	"context"
	"encoding/json"
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

// newTodoWrite makes the tool that keeps nothing: the list is in the conversation, where the model reads it again.
func newTodoWrite(c *Config) tool.Tool {
	return typed(tool.Spec{
		Name: "TodoWrite",
		Description: `Keeps a list of what there is to do, for work of three steps or more. Each call gives the whole list anew.
Have one item in_progress at a time, mark an item completed as soon as it is done and not before, and drop what is no longer needed.`,
		InputSchema: json.RawMessage(todoSchema),
		ReadOnly:    true,
	}, func(_ context.Context, in todoInput) (tool.Result, error) {
		var list strings.Builder
		done := 0
		for i, item := range in.Todos {
			if strings.TrimSpace(item.Content) == "" {
				return tool.Result{}, fmt.Errorf("item %d has no content", i+1)
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
				return tool.Result{}, fmt.Errorf("item %d has the status %q: use pending, in_progress or completed", i+1, item.Status)
			}
			fmt.Fprintf(&list, "\n%s %s", mark, item.Content)
		}
		if len(in.Todos) == 0 {
			return tool.Result{Output: "The list is empty now."}, nil
		}
		return c.result(fmt.Sprintf("The list is kept: %d of %s completed.%s", done, plural(len(in.Todos), "item"), &list)), nil
	})
}

const todoSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "todos": {
      "type": "array",
      "description": "The whole list, in the order of the work",
      "items": {
        "type": "object",
        "properties": {
          "content": {"type": "string", "minLength": 1, "description": "What is to be done, as an order: Run the tests"},
          "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
          "activeForm": {"type": "string", "description": "The same while it is being done: Running the tests"},
          "id": {"type": ["string", "integer"]},
          "priority": {"type": "string"}
        },
        "required": ["content", "status"],
        "additionalProperties": false
      }
    }
  },
  "required": ["todos"],
  "additionalProperties": false
}`
