// Package js runs tools that are written in TypeScript or JavaScript, in worker processes and without Node.
//
// # A tool
//
// A tool is one file, .ts, .mts, .js or .mjs, of at most 1 MiB, in UTF-8. Its default export says what it is:
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
// defineTool gives back what it is given; it is a global, it can be imported from "agenthost", and it can be left out.
// Nothing else can be imported, so that a tool with dependencies is bundled first. Types are stripped, not checked.
// There is no await at the top of a file.
//
// The input is what the model wrote: check it, for models do not always keep to a schema. The result is a string, or
// anything that JSON can say; undefined is an empty result. What call throws is the result of a call that failed: the model
// is told the message and the lines of the file it came from. context has sessionId, runId, log(...) and signal, an
// AbortSignal that fires when the call is told to stop.
//
// # What a tool finds
//
// The language as of ES2023 and newer syntax that can be translated, without Intl. Of the web's interfaces: fetch (with
// Headers and Response, whole bodies of at most 4 MiB, 8 requests at once, 1,000 in a call, 30 s each), timers,
// queueMicrotask, console (to the debug log of the host, 100 lines a call), URL, URLSearchParams, TextEncoder, TextDecoder
// (UTF-8), AbortController, AbortSignal, DOMException, structuredClone, atob, btoa and crypto.randomUUID (not for secrets).
// fetch and timers work within call only. The time zone is UTC. No files, no environment, no processes, no sockets; fetch is
// done by the host, with a client that refuses private, loopback and link-local addresses unless Config.Client says otherwise.
//
// Each call has an engine of its own, in which the file has been run already: no state outlives a call, and the top of the
// file runs many times, also for calls that never come. While it runs it may use a quarter of the memory.
//
// # Limits
//
// A script has 64 MiB of memory, in which a large buffer takes the next power of two, calls 1,000 deep, and until the end
// of the context that its call was given. Then its signal fires, 50 ms later it is interrupted, and 200 ms after the end of
// the context its process is killed, as some loops inside the engine take no interrupt. Whatever ends a process ends one
// call with an error, and the next call has another process. On Linux a worker also has a limit on its address space (three
// times the script memory and 256 MiB beside what a Go program reserves), and it opens no file or socket, writes no file
// and gains no rights, once it has begun.
//
// # Workers
//
// A worker is a process that calls [Work]. By default it is the program itself, started again with one argument, so that the
// program's main begins with
//
//	if len(os.Args) > 1 && os.Args[1] == js.WorkerArg {
//		if js.Work(os.Stdin, os.Stdout) != nil {
//			os.Exit(1)
//		}
//		return
//	}
//
// A program that cannot do that names another one in Config.Command, of the same version of this package.
//
// # What it is not
//
// This is not a virtual machine. What stands between a hostile script and the host is an interpreter (QuickJS, translated
// from C to Go, with the memory errors that its C may have), then a process of the same user with an empty environment and
// the limits above, but with the system calls of any other. It holds what a careless tool does, and what is known of hostile ones. Who runs
// code of strangers adds what the system has: another user, a container, a virtual machine around the whole host.
package js
