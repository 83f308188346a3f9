// Package builtintool has the names of the built-in tools, and the rule for those of custom ones.
package builtintool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/internal/pattern"
)

// Tool describes a tool that is part of every runtime.
type Tool struct {
	Name          string
	Title         string // for display
	Description   string // for users who configure an agent; the model receives a longer one
	DescriptionEN string // the same in English
}

// All returns the built-in tools, sorted by name. Skill exists only for an agent with
// skills, Task only for one with subagents, ListMcpResources and ReadMcpResource only for one with
// MCP servers that have resources.
func All() []Tool {
	return []Tool{
		{"Bash", "Bash", "在工作目录中用 bash 运行命令。", "Runs a command with bash in the working directory."},
		{"Edit", "Edit", "替换文件中的一段文本。", "Replaces a text in a file."},
		{"Glob", "Glob", "按名称模式查找文件。", "Finds files by a pattern of their names."},
		{"Grep", "Grep", "用正则表达式搜索文件内容。", "Searches files for a regular expression."},
		{"ListMcpResources", "ListMcpResources", "列出 MCP 服务器的资源。", "Lists the resources of MCP servers."},
		{"Read", "Read", "读取文本文件。", "Reads a text file."},
		{"ReadMcpResource", "ReadMcpResource", "读取 MCP 服务器的资源。", "Reads a resource of an MCP server."},
		{"Skill", "Skill", "返回一个技能的说明。", "Returns the instructions of a skill."},
		{"Task", "Task", "将任务交给子智能体。", "Delegates a task to a subagent."},
		{"TodoWrite", "TodoWrite", "记录任务列表。", "Records a list of tasks."},
		{"WebFetch", "WebFetch", "获取公网网页的文本。", "Fetches a page of the public web as text."},
		{"Write", "Write", "写入文件。", "Writes a file."},
	}
}

var toolName = pattern.Compile(`^[A-Za-z0-9_-]{1,64}$`)

// serverPrefix begins the names of the tools of MCP servers.
const serverPrefix = "mcp__"

// CheckName returns an error if a custom tool cannot have the name: it is malformed, it begins
// as those of MCP servers, or only letter case distinguishes it from a built-in tool.
func CheckName(name string) error {
	if !toolName().MatchString(name) {
		return fmt.Errorf("the name %.80q does not consist of 1 to 64 letters, digits, _ and -", name)
	}

	if strings.HasPrefix(strings.ToLower(name), serverPrefix) {
		return errors.New("names that begin with " + serverPrefix + " are those of MCP servers")
	}

	for _, t := range All() {
		if strings.EqualFold(name, t.Name) {
			return fmt.Errorf("the name %s is that of the built-in tool %s", name, t.Name)
		}
	}

	return nil
}
