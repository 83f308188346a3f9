// Package js runs tools that are written in TypeScript or JavaScript. They run in worker processes.
// Node is not required.
//
// # A tool
//
// A tool is one file, .ts, .mts, .js or .mjs, in UTF-8, of at most 5 MiB.
// Its default export describes it:
//
//	export default defineTool({
//		name: "word_count",
//		description: "Counts the words of a text.",
//		inputSchema: {type: "object", properties: {text: {type: "string"}}, required: ["text"]},
//		async call(input: {text: string}, context) {
//			context.log("counting")
//			return String(input.text.split(/\s+/).filter(Boolean).length)
//		},
//	})
//
// defineTool returns its argument. It is a global and can be imported from "agenthost"; it is
// optional. No other import is possible: bundle a tool with dependencies first. Types are stripped,
// not checked. There is no top-level await.
//
// The input comes from the model and does not always match the schema: validate it. The result is a
// string or any JSON value; undefined is an empty result. An exception is the result of a failed
// call: the model receives its message and the lines of the file. context has sessionId, runId,
// log(...) and signal, an AbortSignal that fires when the call is cancelled.
//
// # Environment of a tool
//
// The language is ES2023 without Intl, plus newer syntax that can be translated. The web APIs are
// fetch (with Headers and Response; bodies of at most 4 MiB, 8 concurrent requests, 1,000 requests
// per call, 30 s each), timers, queueMicrotask, console (to the log of the host, 100 lines
// per call of 4 KiB each), URL, URLSearchParams, TextEncoder, TextDecoder (UTF-8), AbortController,
// AbortSignal, DOMException, structuredClone, atob, btoa and crypto.randomUUID (not for secrets).
// fetch and timers work only within call. The time zone is UTC. There are no files, environment
// variables, processes or sockets. The host performs fetch with a client that rejects private,
// loopback and link-local addresses, unless Config.Client is set.
//
// Each call has its own engine, in which the file was run in advance: no state survives a call, and
// the top level of the file runs many times, also without a call. The top level can use a quarter
// of the memory. It may run for 5 s when the tool is loaded, 0.5 s in advance of a call and 5 s
// within a call. A worker that does not finish in time is killed. A file that fails in advance of a
// call, or is killed, runs only within its own calls after that.
//
// # Limits
//
// A script has 64 MiB of memory and a call depth of 1,000. The size of a large buffer is rounded up
// to a power of two. When the context of the call ends, its signal fires. After 50 ms the script is
// interrupted. After 200 ms its process is killed, because some loops of the engine cannot be
// interrupted. If a process ends, only its call fails, and the next call uses another process. On
// Linux a worker also has a limit of its address space (three times the script memory and 256 MiB,
// in addition to the memory that a Go program reserves).
//
// A worker runs one call at a time, and further calls wait. The calls of tools that are not loaded
// in advance, and of tools whose last call was stopped or ended its worker, together leave one
// worker to the other tools.
//
// # Untrusted files
//
// Only a worker parses a file: neither the compiler nor the engine runs in another process, and the
// limits of the worker bound what a file can cost. The stack of the compiler is limited to 64 MiB.
// A file that ends or exceeds its worker does not load, and the error names the limit. [NameOf]
// returns the name in an uploaded file, which it does not run: a worker of its own strips the types
// and parses the result. A tool can be uploaded if the name is a text in quotes, and the default
// export is an object, defineTool of one, or a constant of the file that is either. The text may be
// a constant too. [Host.Load] rejects a file that has another name when it runs.
//
// # Workers
//
// A worker is a process that calls worker.Run. Only its package links the compiler and the engine.
// By default it is the same program with one argument, so that its main begins with
//
//	if len(os.Args) > 1 && os.Args[1] == js.WorkerArg {
//		if worker.Run(os.Stdin, os.Stdout) != nil {
//			os.Exit(1)
//		}
//		return
//	}
//
// A program that cannot do this, or that should not link them, sets another program in
// Config.Command, with the same version of this package.
//
// # Security
//
// A script is isolated twice: by an interpreter (QuickJS, translated from C to Go, possibly with
// the memory errors of the C code), and by its process. A worker has an empty environment and the
// limits above. On Linux, before it reads a source, it confines itself as [sandbox.ConfineWorker]
// describes: of the system calls, only those for memory, threads, clocks and the pipes to the host
// are left. A script that escapes from the interpreter has no files, sockets, programs or other
// processes, but can send frames of a tool to the host. Where the kernel cannot do this, and on
// other systems, the host logs it once, and a worker has all rights of the user.
//
// This is not a virtual machine: faults of the kernel and of the processor remain. For untrusted
// code, also isolate the whole host with another user, a container or a virtual machine.
package js
