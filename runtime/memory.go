package runtime

import (
	"net/http"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// errMemory is the error of a request for which Limits.MaxMemoryBytes has no room.
var errMemory = &Error{http.StatusServiceUnavailable, wire.ErrorBody{
	Error: "Out of memory", Reason: "the requests and runs of this runtime together have reached maxMemoryBytes: try again later",
}}

// reserve reserves memory of a run, or releases it if bytes is negative. All runs share
// Limits.MaxMemoryBytes.
func (rt *Runtime) reserve(bytes int) error {
	if sum := rt.reserved.Add(int64(bytes)); bytes > 0 && sum > rt.cfg.Limits.MaxMemoryBytes {
		rt.reserved.Add(int64(-bytes))
		return &model.Error{Code: runvalue.ErrorTypeOverloaded, Message: "the runs of this runtime together use too much memory (maxMemoryBytes): try again later"}
	}

	return nil
}

// Reserve reserves memory of a request, or releases it if bytes is negative. Requests and runs
// share Limits.MaxMemoryBytes. It is for the handlers of Config.Protocols.
func (rt *Runtime) Reserve(bytes int) error {
	if rt.reserve(bytes) != nil {
		return errMemory
	}

	return nil
}

// sessionCopies is how often a stored session is in memory when it is read, at most.
const sessionCopies = 3
