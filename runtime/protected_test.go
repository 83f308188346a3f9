package runtime_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// No permission mode approves writes to the files of the configuration or to the files that any
// agent names.
func TestWritesToTheConfigurationAreNotApproved(t *testing.T) {
	cwd := t.TempDir()
	b := serve(t, nil, func(c *runtime.Config) {
		quick(c)
		c.CWD, c.HomeDir = cwd, t.TempDir()
		for _, name := range []string{"agents.yaml", "prompt.md", "count.ts", "server.js", "server.json", "team/x", "preload.js", "creds.json", "editor/x.json", ".git/config"} {
			writeFile(t, c.CWD, name, "before")
		}
		require.NoError(t, os.Symlink("editor", filepath.Join(c.CWD, ".vscode")))
		c.ProtectedPaths = []string{filepath.Join(c.CWD, "agents.yaml")}
		c.ChildEnv = []string{"PATH=" + strings.Join([]string{"/usr/bin", filepath.Join(c.CWD, ".local", "bin"), "node_modules/.bin", c.CWD}, ":")}
		c.Agents[0].PermissionMode = "acceptEdits"
		other := c.Agents[0]
		other.ID = "other"
		other.SystemPromptFile = filepath.Join(c.CWD, "prompt.md")
		other.CustomTools = []agent.CustomTool{{Path: filepath.Join(c.CWD, "count.ts")}}
		other.ExtraUserSkillDirs = []string{filepath.Join(c.CWD, "team"), "shared/skills"}
		other.MCPServers = map[string]agent.MCPServer{"files": {Transport: "stdio", Command: "node",
			Args: []string{"server.js", "--config=" + c.CWD + "/server.json", "--plugin=dist/late.js", "out", "."},
			Env:  map[string]agent.Secret{"NODE_OPTIONS": "--max-old-space-size=64 --require ./preload.js", "CREDENTIALS": "creds.json"}}}
		c.Agents = append(c.Agents, other)
	})
	for name, approved := range map[string]bool{
		"agents.yaml": false, "prompt.md": false, "count.ts": false, "server.js": false, "server.json": false, "team/x": false,
		"team/new/SKILL.md": false, "shared/skills/new/SKILL.md": false, "shared/other.md": true, ".agents/skills/x/SKILL.md": false, ".local/bin/rg": false, "node_modules/.bin/ls": false,
		"preload.js": false, "creds.json": false, "editor/x.json": false, ".env": false, ".gitignore": true, ".husky/pre-commit": false, ".git/config": false,
		"dist/late.js": false, "dist/other.js": true, "out/x": true,
		"other.md": true, "src/server.js": true,
	} {
		t.Run(name, func(t *testing.T) {
			input, err := json.Marshal(map[string]string{"file_path": name, "content": "after"})
			require.NoError(t, err)
			message, err := json.Marshal(map[string]string{"message": "/tool Write " + string(input)})
			require.NoError(t, err)
			b.blocking(t, string(message))
			content, _ := os.ReadFile(filepath.Join(cwd, name))
			require.Equal(t, approved, string(content) == "after")
		})
	}
}

func TestServersThatAnAgentCanChangeAreReported(t *testing.T) {
	outside := t.TempDir()
	for name, row := range map[string]struct {
		server  string // D is the working directory
		mode    string
		allowed []string
		path    string // in the warning, "" for none
	}{
		"a private directory":       {`{"command":"npx","args":["x","."]}`, "acceptEdits", nil, ""},
		"a cwd":                     {`{"command":"npx","cwd":"."}`, "acceptEdits", nil, "D"},
		"a cwd below":               {`{"command":"npx","cwd":"tools/x"}`, "auto", nil, "D/tools/x"},
		"an absolute cwd":           {`{"command":"npx","cwd":"D/tools"}`, "bypassPermissions", nil, "D/tools"},
		"a cwd elsewhere":           {`{"command":"npx","cwd":"` + outside + `"}`, "acceptEdits", nil, ""},
		"a cwd above":               {`{"command":"npx","cwd":".."}`, "acceptEdits", nil, ""},
		"a script":                  {`{"command":"python3","args":["-u","D/server.py"]}`, "acceptEdits", nil, "D/server.py"},
		"a command":                 {`{"command":"D/.venv/bin/python"}`, "acceptEdits", nil, "D/.venv/bin/python"},
		"an option":                 {`{"command":"node","args":["--require=D/x.js"]}`, "acceptEdits", nil, "D/x.js"},
		"a script below a variable": {`{"command":"python3","args":["${env:ROOT}/server.py"],"env":{"ROOT":"D/tools"}}`, "acceptEdits", nil, "D/tools/server.py"},
		"a cwd of a variable":       {`{"command":"npx","cwd":"${env:SUB}/x","env":{"SUB":"tools"}}`, "auto", nil, "D/tools/x"},
		"a variable":                {`{"command":"python3","env":{"PYTHONPATH":"/opt:D/lib"}}`, "acceptEdits", nil, "D/lib"},
		"the agent does not edit":   {`{"command":"npx","cwd":"."}`, "default", []string{"Read", "Bash(git *)"}, ""},
		"Edit is allowed":           {`{"command":"npx","cwd":"."}`, "default", []string{"Edit"}, "D"},
		"Write of some is allowed":  {`{"command":"npx","cwd":"."}`, "dontAsk", []string{"Write(src/**)"}, "D"},
		"plan mode never edits":     {`{"command":"npx","cwd":"."}`, "plan", nil, ""},
		"not a command":             {`{"transport":"http","url":"http://127.0.0.1:1/D"}`, "acceptEdits", nil, ""},
		"a name that begins alike":  {`{"command":"D-other/server"}`, "acceptEdits", nil, ""},
		"a directory through a way": {`{"command":"npx","cwd":"D/a/../b"}`, "acceptEdits", nil, "D/a/../b"},
	} {
		t.Run(name, func(t *testing.T) {
			var dir string
			b := serve(t, nil, func(c *runtime.Config) {
				dir = c.CWD
				server := agent.MCPServer{Transport: "stdio"}
				require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(row.server, "D", dir)), &server))
				c.Agents[0].PermissionMode, c.Agents[0].AllowedTools = row.mode, row.allowed
				c.Agents[0].MCPServers = map[string]agent.MCPServer{"files": server}
			})
			const warning = "the agent's edits can change an MCP server"
			if row.path == "" {
				require.NotContains(t, b.log.String(), warning)
				return
			}
			require.Contains(t, b.log.String(), warning)
			require.Contains(t, b.log.String(), strings.ReplaceAll(row.path, "D", dir))
		})
	}
}

// No result shows whether a hidden file exists, also for a path through it.
func TestResultsDoNotShowWhichHiddenFilesExist(t *testing.T) {
	b := serve(t, nil, func(c *runtime.Config) {
		quick(c)
		writeFile(t, c.CWD, "secrets/key", "before")
		for link, to := range map[string]string{"dir": "secrets", "link_key": "secrets/key", "link_lost": "secrets/lost"} {
			require.NoError(t, os.Symlink(to, filepath.Join(c.CWD, link)))
		}
		c.Agents[0].PermissionMode = "acceptEdits"
		c.Agents[0].DisallowedTools = []string{"Read(secrets/**)"}
	})
	for _, path := range []string{"secrets/%/x", "dir/%/x", "link_%/x/y"} {
		for tool, input := range map[string]string{"Grep": `"pattern":"b","path":"PATH"`,
			"Edit": `"file_path":"PATH","old_string":"before","new_string":"after"`} {
			t.Run(tool+" "+path, func(t *testing.T) {
				result := func(name string) string {
					message, err := json.Marshal(map[string]string{
						"message": "/tool " + tool + " {" + strings.ReplaceAll(input, "PATH", strings.ReplaceAll(path, "%", name)) + "}"})
					require.NoError(t, err)
					_, run := b.blocking(t, string(message))
					return strings.ReplaceAll(run.Text, name, "NAME")
				}
				require.Equal(t, result("lost"), result("key"))
			})
		}
	}
}

// A skill with disable-model-invocation is not in the system prompt.
func TestHiddenSkillsAreNotInThePrompt(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Done.")))
	b := serve(t, up, func(c *runtime.Config) {
		writeFile(t, c.CWD, ".agents/skills/letters/SKILL.md", skillFile("letters", "for everybody"))
		for name, value := range map[string]string{"hidden": "true", "shown": "false"} {
			writeFile(t, c.CWD, ".agents/skills/"+name+"/SKILL.md",
				"---\nname: "+name+"\ndescription: This one is "+name+".\ndisable-model-invocation: "+value+"\n---\nBody.\n")
		}
	})
	b.blocking(t, `{"message":"Hello."}`)
	body := string(up.Requests()[0].Body)
	require.Contains(t, body, "for everybody")
	require.Contains(t, body, "This one is shown.")
	require.NotContains(t, body, "This one is hidden.")
}

// A skill whose file a rule denies to Read is not offered to the model.
func TestSkillsThatReadIsDeniedAreNotOffered(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "Skill", `{"skill":"linked"}`)),
		modeltest.Stream(modeltest.Text("Done.")))
	b := serve(t, up, func(c *runtime.Config) {
		writeFile(t, c.CWD, "secrets/key", skillFile("linked", "a secret description"))
		writeFile(t, c.CWD, ".agents/skills/letters/SKILL.md", skillFile("letters", "for everybody"))
		require.NoError(t, os.Mkdir(filepath.Join(c.CWD, ".agents", "skills", "linked"), 0o700))
		require.NoError(t, os.Symlink("../../../secrets/key", filepath.Join(c.CWD, ".agents", "skills", "linked", "SKILL.md")))
		c.Agents[0].DisallowedTools = []string{"Read(secrets/**)"}
	})
	b.blocking(t, `{"message":"Hello."}`)
	for _, request := range up.Requests() {
		require.Contains(t, string(request.Body), "for everybody")
		require.NotContains(t, string(request.Body), "a secret description")
		require.NotContains(t, string(request.Body), "The body of linked")
	}
}
