package runtime

import (
	"context"
	"errors"
	"net/http"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// cancelRun handles POST /v1/runs/:runId/cancel.
func (rt *Runtime) cancelRun(w http.ResponseWriter, _ *http.Request, ps httprouter.Params) error {
	id, err := ids.Parse(ps.ByName("runId"))
	if err != nil {
		return errRunNotFound
	}

	response, err := rt.runs.Cancel(id, wire.ReasonClientRequest)
	switch {
	case errors.Is(err, registry.ErrNotFound):
		return errRunNotFound
	case errors.Is(err, run.ErrUnavailable):
		return errReplicas
	case errors.Is(err, registry.ErrEnded):
		return httpapi.WriteJSON(w, http.StatusConflict, response)
	case err != nil:
		return err
	}

	return httpapi.WriteJSON(w, http.StatusAccepted, response)
}

// Cancel cancels a run of this runtime or of another replica. A run that has ended or is unknown is
// ignored. It is for the handlers of Config.Protocols.
func (rt *Runtime) Cancel(_ context.Context, runID string) error {
	id, err := ids.Parse(runID)
	if err != nil {
		return nil //nolint:nilerr // such a run is unknown
	}

	if _, err = rt.runs.Cancel(id, wire.ReasonClientRequest); errors.Is(err, registry.ErrNotFound) || errors.Is(err, registry.ErrEnded) {
		return nil
	}

	return orReplicas(err)
}

// Active reports whether a run is in progress, at this runtime or at another replica. It is for the
// handlers of Config.Protocols.
func (rt *Runtime) Active(_ context.Context, runID string) (bool, error) {
	id, err := ids.Parse(runID)
	if err != nil {
		return false, nil //nolint:nilerr // such a run is unknown
	}

	active, err := rt.runs.Active(id)
	return active, orReplicas(err)
}

// orReplicas returns the error for the client if the bus of the replicas is unavailable.
func orReplicas(err error) error {
	if errors.Is(err, run.ErrUnavailable) {
		return errReplicas
	}

	return err
}
