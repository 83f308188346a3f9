// Package compare holds benchmarks that set packages of agenthost beside what one would take instead. It is a module of
// its own, so that nobody who imports agenthost gets the alternatives. README.md says how to run it.
package compare
