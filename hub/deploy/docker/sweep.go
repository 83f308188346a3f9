package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"
)

const sweepTimeout = 10 * time.Minute

// sweep removes what belongs to no deployment: the networks of an owner, which a hub that was
// killed may have left, and the requests of removed containers. members are the containers of each
// network. It continues after the call: there may be many.
func (d *Driver) sweep(owner string, members map[string]int) {
	if !d.sweeping.TryLock() {
		return
	}

	d.running.Go(func() {
		defer d.sweeping.Unlock()
		ctx, cancel := context.WithTimeout(d.ctx, sweepTimeout)
		defer cancel()
		d.sweepVolumes(ctx, owner)
		d.sweepNetworks(ctx, owner, members)
	})
}

// sweepNetworks removes the networks without a container. Another hub that has chosen one chooses
// again.
func (d *Driver) sweepNetworks(ctx context.Context, owner string, members map[string]int) {
	list, err := d.engine.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("label", labelOwner+"="+owner)})
	if err != nil {
		return
	}

	for _, n := range list.Items {
		if members[n.ID] == 0 {
			d.leave(ctx, n.ID)
		}
	}
}
