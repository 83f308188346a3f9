package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"
)

const sweepTimeout = 10 * time.Minute

// unusedFor is how long a record of a claim belongs to nothing until it is removed, in times of
// Config.Timeout. A method of a hub that was frozen in the meantime has ended by then: the clock of
// the machine, which is also that of the engine, continued. The engine may still do the last call
// of the method, which has no effect without the record.
const unusedFor = 10

// sweep removes what belongs to no deployment: the networks of an owner, which a hub that was
// killed may have left, the records of claims, and the requests of removed containers. members are
// the containers of each network. It continues after the call: there may be many.
func (d *Driver) sweep(owner string, members map[string]int) {
	if !d.sweeping.TryLock() {
		return
	}

	d.running.Go(func() {
		defer d.sweeping.Unlock()
		ctx, cancel := context.WithTimeout(d.ctx, sweepTimeout)
		defer cancel()
		d.sweepVolumes(ctx, owner)
		d.sweepClaims(ctx, owner)
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

// sweepClaims removes the records of claims of an owner that belong to nothing. Those without an
// owner are of a hub that was killed when it had created one. Another hub that uses the record at
// this moment creates it again.
func (d *Driver) sweepClaims(ctx context.Context, owner string) {
	all := d.snapshot("")
	<-all.done
	if all.err != nil {
		return
	}

	unused := map[name]time.Time{}
	for key, items := range all.items {
		f := newDeployment(key, items)
		if len(f.runtimes) > 0 {
			continue
		}

		for _, n := range f.claims {
			if n.Owner != owner && n != firstClaim(key) {
				continue
			}

			since, known := d.unused[n]
			if !known {
				since = time.Now()
			}

			unused[n] = since
			if time.Since(since) < unusedFor*d.cfg.Timeout {
				continue
			}

			var err error
			if f.volumes, err = d.volumes(ctx, key); err == nil && !f.exists() {
				_ = d.remove(ctx, n.String()) // the next sweep repeats it
			}
		}
	}

	d.unused = unused
}
