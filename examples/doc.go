// Package examples contains a small program for each use case: embed mounts a runtime in a server,
// client runs an agent of a remote runtime, tool and typescript give an agent a tool of its own,
// model hosts a model that is written in Go, approve asks a person about each call that needs it,
// and hub embeds a hub whose runtimes are processes of the same program. audit records changes in
// the caller's own transactions, files serves a directory, and stream sends and reads an event
// stream. The tests of the package run all of them.
package examples
