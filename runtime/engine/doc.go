// Package engine runs agents. A run calls the model, emits the parts of its response as they
// arrive, runs the tool calls in the response, and calls the model again with their results. It
// ends when the model requests no more tools, or at a limit.
//
// An [Engine] has the configuration of one agent. [Engine.Run] executes one run of it:
//
//	agent, err := engine.New(engine.Config{Model: m, Tools: tools})
//	...
//	outcome, err := agent.Run(ctx, engine.Input{Session: s, Message: "hello"}, output)
//
// Events go to an [Output]. Cancelling ctx is the only way to stop a run.
package engine
