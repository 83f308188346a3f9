package tool

import "context"

// Server is a set of tools behind a connection that may be down, such as an MCP server. Many
// runs share it. It is safe for concurrent use.
type Server interface {
	// Name returns the server's name in the configuration.
	Name() string

	// Status returns the state of the connection, without blocking. A server that was not used yet,
	// or that has disconnected, is pending: Tools connects it.
	Status() Status

	// Tools returns the server's tools, and connects first if there is no connection. The same
	// pointer means the same tools; the list must not be changed. When ctx ends, Tools returns; an
	// attempt to connect continues for other callers.
	//
	// A call of a tool reconnects if necessary.
	Tools(ctx context.Context) (*List, error)

	// Close closes the connection and terminates its processes. Later calls fail.
	Close() error
}

// List has the tools of a [Server].
type List struct {
	Tools []Tool // their names are mcp__<server>__<tool> and unique

	// LeftOut has a sentence for each tool that cannot be called, with its name and the reason. A
	// run emits them as warnings.
	LeftOut []string
}

// Status is the state of the connection to a [Server].
type Status string

const (
	Pending   Status = "pending"
	Connected Status = "connected"
	Failed    Status = "failed" // and there is no attempt in progress
)
