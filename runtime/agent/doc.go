// Package agent holds agent definitions as plain data: what an agent is called, which model it
// speaks to, which tools it may use. It starts nothing, opens nothing and reads no environment.
//
// An [Agent] is built in Go, or comes out of [Parse], which reads the YAML or JSON bytes of a
// configuration [File]:
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
// The keys of the file are the JSON names of the fields. json.Marshal and yaml.Marshal of a
// File write a file that Parse reads back to the same value.
//
// What can be wrong with an agent is told in two steps, by the same rules for both ways of
// building it. [File.Validate] (which Parse has done) finds what must stop a program from
// starting: something is missing, has a wrong form, or stands there twice. [Agent.Check] finds
// what makes this agent alone unavailable: it names something that nothing answers to. Both
// tell all [Faults] at once.
//
// A setting whose nil and empty values differ says so: no AllowedTools means every tool, an
// empty list means none.
package agent
