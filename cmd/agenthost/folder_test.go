package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const folderTool = `export default {
	name: "folder_words",
	description: "Counts words.",
	inputSchema: {type: "object", properties: {text: {type: "string"}}, required: ["text"]},
	async call(input: {text: string}) { return "words: " + input.text.split(" ").length },
}
`

const folderAgents = `agents:
  - id: helper
    model: demo
    provider: {protocol: demo}
    systemPromptFile: prompt.md
    permissionMode: bypassPermissions
    allowedTools: [Read, "Bash(git *)", folder_words, Skill]
    customTools: [{path: tools/words.ts}]
`

// The agents of a directory are deployed with their prompts, tools and skills, and again when a
// file changes. A faulty file is reported, and corrected by the next change.
func TestDevFollowsADirectory(t *testing.T) {
	t.Parallel()
	dir, agents := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(agents, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("agents.yaml", folderAgents)
	write("prompt.md", "You count words.")
	write("tools/words.ts", folderTool)
	write("skills/travel/SKILL.md", "---\nname: travel\ndescription: Plans journeys.\n---\nPack for the weather.\n")
	p := startDev(t, dir, nil, "--agents", agents, "--yes")
	defer end(t, p)
	starts := func(agent string, n int) *regexp.Regexp {
		return regexp.MustCompile(fmt.Sprintf(`(?s)(The agent %s is running.*){%d}`, agent, n))
	}
	p.Await(t, p.Stdout, starts("helper", 1))
	c := clientOf(t, p, dir)
	stored, err := c.Agents.Get(t.Context(), "helper")
	require.NoError(t, err)
	require.Equal(t, "You count words.", stored.SystemPrompt)
	require.Equal(t, []string{"travel"}, stored.Skills)
	require.ElementsMatch(t, []string{"Bash", "Read", "Skill", "folder_words"}, stored.Tools)
	const call = `/tool folder_words {"text": "one two three"}`
	require.Contains(t, ask(t, c, "helper", call), "words: 3")
	require.Contains(t, ask(t, c, "helper", `/tool Skill {"skill": "travel"}`), "Pack for the weather.")

	begin := time.Now()
	write("tools/words.ts", regexp.MustCompile("words: ").ReplaceAllString(folderTool, "counted: "))
	p.Await(t, p.Stdout, starts("helper", 2))
	t.Logf("redeployed after %v", time.Since(begin))
	require.Contains(t, ask(t, c, "helper", call), "counted: 3")

	write("agents.yaml", "agents: [{id: helper}]")
	p.Await(t, p.Log, regexp.MustCompile(`(?s)agenthost dev: .*agents.yaml`))
	write("agents.yaml", folderAgents+"  - id: second\n    model: demo\n    provider: {protocol: demo}\n")
	p.Await(t, p.Stdout, starts("second", 1))
	require.Contains(t, ask(t, c, "second", "Hello!"), "You wrote: Hello!")
	write("agents.yaml", folderAgents+"  - id: third\n    model: claude-sonnet-4-5\n    provider: {protocol: anthropic}\n")
	p.Await(t, p.Log, regexp.MustCompile("the agent third has no API key and cannot answer: set ANTHROPIC_API_KEY"))
}
