package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/runtime/tool"
)

type writeInput struct {
	FilePath string `json:"file_path"`
	Content  string `json:"content"`
}

const newFile = 0o644 // the permission bits of a new file, before umask

func newWrite(c *Config) tool.Tool {
	return typed(tool.Spec{
		Name: "Write",
		Description: `Writes a file: a new one, with the directories that are missing, or in place of all that is in it.
To change a part of a file use Edit. Read a file that is there before you write over it.`,
		InputSchema: json.RawMessage(writeSchema),
	}, func(ctx context.Context, in writeInput) (tool.Result, error) {
		defer lock(c.Dir, in.FilePath)()
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		done := "Created"
		if _, err := c.Dir.Stat(in.FilePath); err == nil {
			done = "Updated"
		}
		if err := c.Dir.WriteFile(in.FilePath, []byte(in.Content), newFile); err != nil {
			return tool.Result{}, explain(c.Dir, in.FilePath, err)
		}
		lines := strings.Count(in.Content, "\n")
		if in.Content != "" && !strings.HasSuffix(in.Content, "\n") {
			lines++
		}
		size := plural(len(in.Content), "byte") + ", " + plural(lines, "line")
		return c.result(fmt.Sprintf("%s %s (%s).", done, shown(in.FilePath), size)), nil
	})
}

const writeSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "file_path": {"type": "string", "minLength": 1, "description": "The file, absolute or relative to the working directory"},
    "content": {"type": "string", "description": "All that is to be in the file"}
  },
  "required": ["file_path", "content"],
  "additionalProperties": false
}`
