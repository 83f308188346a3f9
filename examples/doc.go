// Package examples contains a small program for each use case: embed mounts a runtime in a server,
// client runs an agent of a remote runtime, tool gives an agent a tool written in Go, and approve
// decides about each call of a tool. The tests of the package run all of them.
package examples
