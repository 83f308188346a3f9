// Package agent defines agents as plain data: name, model, tools, permissions. It starts no
// process, opens no file and reads no environment.
//
// An [Agent] is built in Go, or by [Parse] from the YAML or JSON text of a configuration [File]:
//
//	auth: {apiKey: "${HTTP_KEY}"}
//	limits: {runTimeout: 10m}
//	agents:
//	  - id: coder
//	    model: claude-sonnet-4-5
//	    provider: {protocol: anthropic, apiKey: "${TEAM_KEY}"}
//	    systemPromptFile: prompts/coder.md
//	    allowedTools: [Read, "Bash(git *)"]
//
// The keys of the file are the JSON names of the fields. Parse reads the output of json.Marshal and
// yaml.Marshal of a File back to the same value.
//
// An agent is validated in two steps, whether it was parsed or built in Go. [File.Validate], which
// Parse includes, finds faults that prevent a program from starting: missing, malformed or repeated
// settings. [Agent.Check] finds faults that make only this agent unavailable, such as an unknown
// protocol. Both return all [Faults] together.
//
// The comment of a setting states if nil and empty differ: without AllowedTools an agent has every
// tool, with an empty list it has none.
//
// [Parse] takes time and memory in proportion to the size of its input, which the caller limits.
// The depth of values and the number of values from aliases are limited.
package agent
