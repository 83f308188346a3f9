// Package examples has a small program for each way of use, each in a folder of its own: embed mounts a runtime in a program's
// own server, client runs an agent of a runtime elsewhere, tool gives an agent a tool written in Go, and approve asks before
// each call of one. Its tests run them all.
package examples
