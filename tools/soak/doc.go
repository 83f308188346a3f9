// Package soak has tests that attack the built servers for minutes, each server by one kind of
// hostile input at a low rate: schemas, MCP servers, pages, upstreams, uploads, custom tools,
// sign-ins, writes, logout tokens, names of agents, slow readers, edited directories, changes of
// agents, long paths and large requests. The memory of the server must stay flat, and other callers
// must be served. No latency is required, because the machine may be busy. `make soak` runs them.
// They need Linux.
package soak
