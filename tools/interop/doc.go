// Package interop has tests that run the runtime and the hub with third-party software: MCP
// servers, a mock upstream, event stream clients, generators of clients, reverse proxies and
// caches, and with the skills of public packages. A person in a test types the commands of a
// document in a terminal and clicks in a browser, on a machine that the test has for itself, and
// counts the commands and the values. `make interop` installs the programs and runs the tests.
package interop
