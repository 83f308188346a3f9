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

const newFileMode = 0o644 // before umask

func newWrite(c *Config) tool.Tool {
	return typed(tool.Spec{
		Name: "Write",
		Description: `Writes a file. Creates the file and missing directories, or replaces the whole content of an existing file.
To change part of a file, use Edit. Read an existing file before you replace it.`,
		InputSchema: json.RawMessage(writeSchema),
	}, func(ctx context.Context, in writeInput) (tool.Result, error) {
		defer lock(c.Dir, in.FilePath)()
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		verb := "Created"
		if c.hidesPath(in.FilePath) { // the result must not depend on whether it exists
			verb = "Wrote"
		} else if _, err := c.Dir.Stat(in.FilePath); err == nil {
			verb = "Updated"
		}
		if err := c.Dir.WriteFile(in.FilePath, []byte(in.Content), newFileMode); err != nil {
			return tool.Result{}, pathError(c.Dir, in.FilePath, err)
		}
		lines := strings.Count(in.Content, "\n")
		if in.Content != "" && !strings.HasSuffix(in.Content, "\n") {
			lines++
		}
		size := plural(len(in.Content), "byte") + ", " + plural(lines, "line")
		return c.result(fmt.Sprintf("%s %s (%s).", verb, display(in.FilePath), size)), nil
	})
}

const writeSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "file_path": {"type": "string", "minLength": 1, "description": "The file, absolute or relative to the working directory"},
    "content": {"type": "string", "description": "The whole content of the file"}
  },
  "required": ["file_path", "content"],
  "additionalProperties": false
}`
