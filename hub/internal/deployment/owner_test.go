package deployment_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
)

// owned is a driver that is given the owner of its deployments.
type owned struct {
	deploy.Driver
	owner atomic.Pointer[string]
}

func (o *owned) Own(owner string) { o.owner.Store(&owner) }

func (o *owned) Backend() string { return *o.owner.Load() } // it panics without an owner

// A driver has the owner of the database before it is used.
func TestDriverHasAnOwner(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		d := &owned{Driver: w.driver}
		h := w.start(func(c *deployment.Config) { c.Driver = d })
		h.ada.Post(path, nil).Want(202)
		status := h.reach("running")
		require.Equal(t, w.driver.Last(key).Owner, status["backend"])
	})
}
