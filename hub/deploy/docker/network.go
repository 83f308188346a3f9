package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// tenantNetwork is the network of the runtimes of a tenant.
type tenantNetwork struct {
	id        string
	published bool // runtimes have a port on the loopback address, otherwise the hub is connected
}

// reach is how the hub reaches its runtimes.
type reach struct {
	mu     sync.Mutex // guards the fields below
	known  bool
	hub    string          // the id of the hub's container, or "" if ports are published
	joined map[string]bool // ids of the networks to which the hub was connected
}

// hub returns the id of the hub's container, or "" if ports are published.
func (d *Driver) hub(ctx context.Context) (string, error) {
	d.reach.mu.Lock()
	defer d.reach.mu.Unlock()
	if d.reach.known || d.cfg.HubContainer == "" {
		return d.reach.hub, nil
	}
	found, err := d.engine.ContainerInspect(ctx, d.cfg.HubContainer, client.ContainerInspectOptions{})
	switch {
	case err != nil && !gone(err):
		return "", fault(ctx, "find the container of the hub", err)
	case err == nil && (found.Container.HostConfig == nil || !found.Container.HostConfig.NetworkMode.IsHost()):
		d.reach.hub = found.Container.ID
	}
	d.reach.known, d.reach.joined = true, map[string]bool{}
	return d.reach.hub, nil
}

// network returns the network of a tenant, which is created if it does not exist.
func (d *Driver) network(ctx context.Context, owner, tenant string) (n tenantNetwork, err error) {
	hub, err := d.hub(ctx)
	if err != nil {
		return n, err
	}
	n.published = hub == ""
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %v", owner, tenant, n.published))
	name := namePrefix + "net-" + hex.EncodeToString(sum[:8])
	d.networks.Lock()
	defer d.networks.Unlock()
	if n.id, err = d.first(ctx, name); err != nil || n.id != "" {
		return n, errors.Join(err, d.join(ctx, n.id))
	}
	made, err := d.engine.NetworkCreate(ctx, name, client.NetworkCreateOptions{
		Driver: "bridge",
		// Runtimes do not reach each other. The hub has to reach them if it is connected.
		Options: map[string]string{"com.docker.network.bridge.enable_icc": strconv.FormatBool(!n.published)},
		Labels:  map[string]string{labelOwner: owner, labelTenant: tenant},
	})
	if err != nil && !cerrdefs.IsConflict(err) {
		return n, fault(ctx, "create network of the tenant", err)
	}
	if n.id, err = d.first(ctx, name); err != nil {
		return n, err
	}
	if made.ID != "" && made.ID != n.id { // another hub was faster
		_, _ = d.engine.NetworkRemove(ctx, made.ID, client.NetworkRemoveOptions{}) // it is empty
	}
	return n, d.join(ctx, n.id)
}

// first returns the id of the network with a name, or "". An engine before API 1.44 creates several
// for concurrent calls: then all hubs use the first one.
func (d *Driver) first(ctx context.Context, name string) (id string, err error) {
	list, err := d.engine.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("name", name)})
	if err != nil {
		return "", fault(ctx, "list networks", err)
	}
	var created time.Time
	for _, n := range list.Items {
		if n.Name == name && (id == "" || n.Created.Before(created) || n.Created.Equal(created) && n.ID < id) {
			id, created = n.ID, n.Created
		}
	}
	return id, nil
}

// join connects the container of the hub to a network.
func (d *Driver) join(ctx context.Context, id string) error {
	hub, err := d.hub(ctx)
	if err != nil || hub == "" || id == "" {
		return err
	}
	d.reach.mu.Lock()
	defer d.reach.mu.Unlock()
	if d.reach.joined[id] {
		return nil
	}
	found, err := d.engine.ContainerInspect(ctx, hub, client.ContainerInspectOptions{})
	if err == nil && !connected(found.Container.NetworkSettings, id) {
		_, err = d.engine.NetworkConnect(ctx, id, client.NetworkConnectOptions{Container: hub})
	}
	if err != nil {
		return fault(ctx, "connect the hub to the network of the tenant", err)
	}
	d.reach.joined[id] = true
	return nil
}

// connected reports whether a container has an address in a network.
func connected(s *container.NetworkSettings, id string) bool { return endpoint(s, id).IsValid() }

// endpoint returns the address of a container in a network.
func endpoint(s *container.NetworkSettings, id string) (addr netip.Addr) {
	if s == nil {
		return addr
	}
	for _, e := range s.Networks {
		if e != nil && e.NetworkID == id {
			addr = e.IPAddress
		}
	}
	return addr
}

// leave removes a network if no container belongs to it. What fails is left to the next deployment
// of the tenant.
func (d *Driver) leave(ctx context.Context, id string) {
	d.networks.Lock()
	defer d.networks.Unlock()
	list, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelNetwork+"="+id)})
	if id == "" || err != nil || len(list.Items) > 0 {
		return
	}
	d.reach.mu.Lock()
	defer d.reach.mu.Unlock()
	if d.reach.hub != "" {
		_, _ = d.engine.NetworkDisconnect(ctx, id, client.NetworkDisconnectOptions{Container: d.reach.hub}) // the removal reports it
		delete(d.reach.joined, id)
	}
	_, _ = d.engine.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
}

// address returns the URL of a running container. It is "" while the engine starts it.
func (d *Driver) address(ctx context.Context, r runtimeContainer, s *container.NetworkSettings) (string, error) {
	if s == nil {
		return "", nil
	}
	for _, b := range s.Ports[network.MustParsePort(strconv.Itoa(listenPort)+"/tcp")] {
		if b.HostPort != "" {
			return "http://" + net.JoinHostPort(b.HostIP.String(), b.HostPort), nil
		}
	}
	id := r.labels[labelNetwork]
	addr := endpoint(s, id)
	if !addr.IsValid() {
		return "", nil
	}
	if err := d.join(ctx, id); err != nil {
		return "", err
	}
	return "http://" + net.JoinHostPort(addr.String(), strconv.Itoa(listenPort)), nil
}
