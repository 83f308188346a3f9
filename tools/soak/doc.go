// Package soak has tests that attack the built servers for minutes, each server by one kind of
// hostile input at a low rate: schemas, MCP servers, pages, upstreams, uploads, custom tools,
// sign-ins and writes. The memory of the server must stay flat, and other callers must be served.
// `make soak` runs them. They need Linux.
package soak
