package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// tenantNetwork is a network of the runtimes of a tenant.
type tenantNetwork struct {
	id        string
	published bool // runtimes have a port on the loopback address, otherwise the hub is connected
}

// networkPrefix is that of the names of networks. The engine gives a container the default route
// and the published ports of the network whose name is the first in lexical order: a hub that is a
// container retains its own.
const networkPrefix = "zz-agenthost-"

// lock lets one call choose or remove networks at a time. A container is created before it is
// unlocked, so that a network is neither removed nor filled in the meantime.
func (d *Driver) lock(ctx context.Context) error {
	select {
	case d.placing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault(ctx, "wait for a network", ctx.Err())
	}
}

func (d *Driver) unlock() { <-d.placing }

// network returns a network of a tenant that has an address for one more runtime. A tenant has as
// many as its runtimes need. A container that exists remains in its network, which is present.
func (d *Driver) network(ctx context.Context, owner, tenant, present string) (n tenantNetwork, err error) {
	hub, err := d.hub(ctx)
	if err != nil {
		return n, err
	}

	n.published = hub == ""
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %v", owner, tenant, n.published))
	prefix := networkPrefix + hex.EncodeToString(sum[:8]) + "-"
	if n.id, err = d.choose(ctx, owner, tenant, prefix, present); err != nil {
		return n, err
	}

	if n.id == "" {
		if n.id, err = d.createNetwork(ctx, prefix, network.CreateRequest{
			Driver: "bridge",
			// Runtimes do not reach each other. The hub has to reach them if it is connected.
			Options: map[string]string{"com.docker.network.bridge.enable_icc": strconv.FormatBool(!n.published)},
			Labels:  map[string]string{labelOwner: owner, labelTenant: tenant},
		}); err != nil {
			return n, err
		}
	}

	return n, d.join(ctx, n.id)
}

// choose returns the id of a network of the tenant that is not full, or "".
func (d *Driver) choose(ctx context.Context, owner, tenant, prefix, present string) (string, error) {
	ours := client.Filters{}.Add("label", labelOwner+"="+owner, labelTenant+"="+tenant)
	networks, err := d.engine.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	if err != nil {
		return "", fault(ctx, "list networks", err)
	}

	members, err := d.members(ctx, ours)
	if err != nil {
		return "", err
	}

	best := ""
	for _, n := range networks.Items {
		if !strings.HasPrefix(n.Name, prefix) {
			continue
		}

		if n.ID == present {
			return n.ID, nil
		}

		// Hubs prefer the same one, so that few are created.
		if members[n.ID] < maxMembers && (best == "" || n.ID < best) {
			best = n.ID
		}
	}

	return best, nil
}

// members returns the number of containers of each network.
func (d *Driver) members(ctx context.Context, filter client.Filters) (map[string]int, error) {
	list, err := d.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, fault(ctx, "list containers", err)
	}

	members := map[string]int{}
	for _, c := range list.Items {
		members[c.Labels[labelNetwork]]++
	}

	return members, nil
}

// createNetwork creates a network with a free subnet. Several of a tenant have different names.
func (d *Driver) createNetwork(ctx context.Context, prefix string, options network.CreateRequest) (string, error) {
	all, err := d.engine.NetworkList(ctx, client.NetworkListOptions{})
	if err != nil {
		return "", fault(ctx, "list networks", err)
	}

	subnet, err := d.freeSubnet(all.Items)
	if err != nil {
		return "", err
	}

	name := prefix + strings.NewReplacer(".", "-", "/", "-").Replace(subnet.String())
	made, err := d.engine.NetworkCreate(ctx, name, client.NetworkCreateOptions{
		Driver: options.Driver, Options: options.Options, Labels: options.Labels,
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}},
	})
	if err == nil {
		return made.ID, nil
	}

	if again, e := d.engine.NetworkList(ctx, client.NetworkListOptions{}); e == nil && overlaps(subnet, subnets(again.Items)) {
		return "", errChanged // another hub has taken it
	}

	return "", fault(ctx, "create network of the tenant", err)
}

// subnets returns the subnets of networks.
func subnets(networks []network.Summary) (all []netip.Prefix) {
	for _, n := range networks {
		for _, c := range n.IPAM.Config {
			all = append(all, c.Subnet)
		}
	}

	return all
}

// placeless reports whether the network of a container does not exist.
func (d *Driver) placeless(ctx context.Context, n name) bool {
	found, err := d.engine.ContainerInspect(ctx, n.String(), client.ContainerInspectOptions{})
	if err != nil || found.Container.Config == nil {
		return false
	}

	_, err = d.engine.NetworkInspect(ctx, found.Container.Config.Labels[labelNetwork], client.NetworkInspectOptions{})
	return gone(err)
}

// leave removes a network if no container belongs to it. What fails is left to sweep.
func (d *Driver) leave(ctx context.Context, id string) {
	if id == "" || d.lock(ctx) != nil {
		return
	}

	defer d.unlock()
	if members, err := d.members(ctx, client.Filters{}.Add("label", labelNetwork+"="+id)); err == nil && len(members) == 0 {
		d.removeNetwork(ctx, id)
	}
}

// removeNetwork removes a network without runtimes after this hub has left it. The engine does not
// remove it as long as another hub is connected, which may be about to create a container: that hub
// leaves it in its own sweep.
func (d *Driver) removeNetwork(ctx context.Context, id string) {
	hub, err := d.hub(ctx)
	if err != nil {
		return
	}

	if hub != "" {
		_, _ = d.engine.NetworkDisconnect(ctx, id, client.NetworkDisconnectOptions{Container: hub, Force: true}) // the removal reports it
	}

	_, _ = d.engine.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	d.reach.left(id) // it is read again
}

// endpoint returns the address of a container in a network.
func endpoint(networks map[string]*network.EndpointSettings, id string) (addr netip.Addr) {
	for _, e := range networks {
		if e != nil && e.NetworkID == id {
			addr = e.IPAddress
		}
	}

	return addr
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
	addr := endpoint(s.Networks, id)
	if !addr.IsValid() {
		return "", nil
	}

	if err := d.join(ctx, id); err != nil {
		return "", err
	}

	return "http://" + net.JoinHostPort(addr.String(), strconv.Itoa(listenPort)), nil
}
