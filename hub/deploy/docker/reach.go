package docker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/client"
)

// reach is how the hub reaches its runtimes: through ports on the loopback address, or from its
// container, which is connected to their networks.
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
	case gone(err) && d.cfg.HubDetected:
	case gone(err):
		return "", fmt.Errorf("the Docker engine has no container %.100s, in which the hub runs: set docker.hubContainer", d.cfg.HubContainer)
	case err != nil:
		return "", fault(ctx, "find the container of the hub", err)
	case found.Container.HostConfig == nil || !found.Container.HostConfig.NetworkMode.IsHost():
		d.reach.hub = found.Container.ID
	}

	d.reach.known, d.reach.joined = true, map[string]bool{}
	return d.reach.hub, nil
}

// join connects the container of the hub to a network.
func (d *Driver) join(ctx context.Context, id string) error {
	hub, err := d.hub(ctx)
	if err != nil || hub == "" {
		return err
	}

	d.reach.mu.Lock()
	defer d.reach.mu.Unlock()
	if d.reach.joined[id] {
		return nil
	}

	found, err := d.engine.ContainerInspect(ctx, hub, client.ContainerInspectOptions{})
	if err == nil && (found.Container.NetworkSettings == nil || !endpoint(found.Container.NetworkSettings.Networks, id).IsValid()) {
		_, err = d.engine.NetworkConnect(ctx, id, client.NetworkConnectOptions{Container: hub})
	}

	if gone(err) {
		return errChanged // the network was removed
	}

	if err != nil {
		return fault(ctx, "connect the hub to the network of the tenant", err)
	}

	d.reach.joined[id] = true
	return nil
}

// left records that a network no longer exists.
func (r *reach) left(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.joined, id)
}

// Check returns an error if the engine cannot run deployments with this configuration. It is a
// deploy.ErrUnavailable if the engine does not respond, which may be temporary.
func (d *Driver) Check(ctx context.Context) error {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	_, err := d.engine.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if untrusted(err) {
		return fmt.Errorf("connect to the Docker engine: %w", err)
	}

	if err != nil {
		return errors.Join(fault(ctx, "connect to the Docker engine", err), err)
	}

	_, err = d.hub(ctx)
	return err
}

// untrusted reports whether the engine and the hub do not accept each other's certificate.
func untrusted(err error) bool {
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	op, failed := errors.AsType[*net.OpError](err)
	return cert || failed && op.Op == "remote error" // an alert of TLS
}

// onThisMachine reports whether the address of the engine is one of this machine. Only then can
// ports that it publishes on the loopback address be reached.
func onThisMachine(host *url.URL) (bool, error) {
	if host.Scheme != "tcp" {
		return true, nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host.Hostname())
	if err != nil {
		return false, fmt.Errorf("find the Docker engine: %w", err)
	}

	local, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("read the addresses of this machine: %w", err)
	}

	for _, addr := range addrs {
		mine := slices.ContainsFunc(local, func(a net.Addr) bool {
			p, err := netip.ParsePrefix(a.String())
			return err == nil && p.Addr() == addr.Unmap()
		})
		if !mine && !addr.Unmap().IsLoopback() {
			return false, nil
		}
	}

	return true, nil
}

const lookupTimeout = 5 * time.Second
