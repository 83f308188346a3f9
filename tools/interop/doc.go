// Package interop has tests that run the runtime and the hub with third-party software: MCP
// servers, a mock upstream, event stream clients, generators of clients, reverse proxies and
// caches, and with the skills of public packages. `make interop` installs the programs and runs the
// tests.
package interop
