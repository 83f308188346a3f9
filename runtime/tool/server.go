package tool

import "context"

// Server is a set of tools behind a connection that may be down, such as an MCP server. Many
// runs share it. It is safe for concurrent use.
type Server interface {
	// Name is the server's name in the configuration.
	Name() string

	// Status tells how the connection stands, without waiting for anything. A server that
	// nothing was asked of yet, or that has gone since, is pending: Tools connects it.
	Status() Status

	// Tools connects, where there is no connection, and answers the server's tools. What they
	// are is up to the server; their names are mcp__<server>__<tool>, and each is in it once.
	// The same slice means the same tools. It is not changed by anybody. When ctx ends, this
	// caller stops waiting; an attempt to connect that others wait for goes on.
	//
	// A call of a tool whose connection has gone connects again.
	Tools(ctx context.Context) ([]Tool, error)

	// Close ends the connection and all that was started for it. Calls fail afterwards.
	Close() error
}

// Status is how the connection to a [Server] stands.
type Status string

const (
	Pending   Status = "pending"
	Connected Status = "connected"
	Failed    Status = "failed" // and nobody is trying just now
)
