// Package interop has tests that run the runtime with third-party software: MCP servers, a mock
// upstream, event stream clients and reverse proxies. `make interop` installs the programs and runs
// them.
package interop
