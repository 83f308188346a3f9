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

	// Tools returns the server's tools, and connects first if there is no connection. Their names
	// are mcp__<server>__<tool> and unique. The same slice means the same tools; it must not be
	// changed. When ctx ends, Tools returns; an attempt to connect continues for other callers.
	//
	// A call of a tool reconnects if necessary.
	Tools(ctx context.Context) ([]Tool, error)

	// Close closes the connection and terminates its processes. Later calls fail.
	Close() error
}

// Status is the state of the connection to a [Server].
type Status string

const (
	Pending   Status = "pending"
	Connected Status = "connected"
	Failed    Status = "failed" // and there is no attempt in progress
)
