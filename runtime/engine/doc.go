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
//
// # Stack of a waiting run
//
// A streamed run waits for its model most of the time, and with a thousand open streams the stacks
// of the waiting goroutines are the largest part of the memory. A stack grows by doubling and does
// not shrink while its goroutine waits. If the frames of a stream take less than 8 KiB, its stack
// takes 8 KiB. With a few hundred bytes more, the stack takes 16 KiB. These rules keep the frames
// between the HTTP handler and the read of the connection below 8 KiB:
//
//   - Between the handler and the read there is one function for each layer: execute, Run, loop and
//     callModel here, the adapter's Stream, upstream's Stream, relay and read. The state of a layer is
//     in a struct on the heap: run, model.Collector, upstream's response.
//   - Code that runs once, or rarely, is in functions of its own, marked go:noinline where the
//     compiler would inline them: awaitFirstAppend, completeResponse and abortResponse here, others
//     in model.Collector, in upstream and in the decoders of the adapters. Their frames do not
//     exist while the run waits.
//   - Deep library code that runs for rare events, such as encoding/json, runs on another goroutine:
//     upstream.Aside.
//
// BenchmarkMemoryPerStream in cmd/runtime measures the result.
package engine
