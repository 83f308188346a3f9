package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/seed93082962/agenthost/runtime/agent"
)

func ExampleParse() {
	data := []byte(`
agents:
  - id: coder
    model: claude-sonnet-4-5
    provider: {protocol: anthropic, apiKey: "${TEAM_KEY}"}
    allowedTools: [Read, "Bash(git *)"]
`)
	environment := map[string]string{"TEAM_KEY": "sk-123"} // os.LookupEnv in a program
	file, err := agent.Parse("agents.yaml", data, func(name string) (string, bool) {
		v, ok := environment[name]
		return v, ok
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	coder := file.Agents[0]
	fmt.Println(coder.ID, coder.TurnLimit(), coder.AllowedTools)
	fmt.Printf("%+v\n", coder.Provider)
	// Output:
	// coder 10 [Read Bash(git *)]
	// {Protocol:anthropic BaseURL: APIKey:*** AuthStyle: APIKeyHeader: Headers:map[] Body:map[] StreamUsage:<nil>}
}

func ExampleParse_faults() {
	_, err := agent.Parse("agents.yaml", []byte(`
agents:
  - id: Coder
    provider: {protocol: anthropic, baseURL: "https://example.com"}
    permissionMode: yes
`), os.LookupEnv)
	fmt.Println(err)

	if faults, ok := errors.AsType[agent.Faults](err); ok {
		fmt.Println(len(faults), "faults, the last at", faults[3].Key, "on line", faults[3].Line)
	}
	// Output:
	// agents.yaml:3: agents[0].id: "Coder" must consist of lower-case letters and digits with single hyphens between them, at most 63 characters
	// agents.yaml:3: agents[0].model: is missing
	// agents.yaml:4: agents[0].provider.baseURL: unknown key; did you mean baseUrl?
	// agents.yaml:5: agents[0].permissionMode: "yes" is not one of default, acceptEdits, bypassPermissions, plan, dontAsk, auto
	// 4 faults, the last at agents[0].permissionMode on line 5
}

func ExampleAgent_Validate() {
	a := agent.Agent{
		ID:         "helper",
		Model:      "demo",
		Provider:   agent.Provider{Protocol: agent.ProtocolDemo},
		MCPServers: map[string]agent.MCPServer{"files": {Transport: "stdio"}},
	}
	fmt.Println(a.Validate())
	// Output: mcpServers.files.command: is missing
}

func ExampleAgent_Check() {
	a := agent.Agent{ID: "helper", Model: "m", Provider: agent.Provider{Protocol: "carrier-pigeon"}}
	fmt.Println("stops the start:", a.Validate())
	fmt.Println("unavailable:", a.Check())
	// Output:
	// stops the start: <nil>
	// unavailable: provider.protocol: "carrier-pigeon" is not one of anthropic, openai, demo
}

func ExampleAgent_Detail() {
	a := agent.Agent{
		ID: "helper", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
		MCPServers: map[string]agent.MCPServer{"files": {
			Transport: "stdio", Command: "mcp-files", Env: map[string]agent.Secret{"TOKEN": "t-123"},
		}},
	}
	body, _ := json.Marshal(a.Detail("ready", nil))
	fmt.Println(string(body))
	// Output: {"id":"helper","name":"helper","model":"m","status":"ready","maxTurns":10,"hasSystemPrompt":false,"mcpServers":{"files":{"transport":"stdio","command":"mcp-files","env":{"TOKEN":"***"}}}}
}

func ExampleFile() {
	file := agent.File{
		Agents: []agent.Agent{{
			ID: "helper", Model: "m",
			Provider: agent.Provider{Protocol: agent.ProtocolOpenAI, APIKey: "costs ${money}"},
		}},
	}
	data, _ := json.Marshal(file) // may hold secrets: not for a log
	fmt.Println(string(data))

	back, err := agent.Parse("agents.json", data, nil)
	fmt.Println(string(back.Agents[0].Provider.APIKey), err)
	// Output:
	// {"agents":[{"id":"helper","model":"m","provider":{"protocol":"openai","apiKey":"costs $${money}"}}]}
	// costs ${money} <nil>
}
