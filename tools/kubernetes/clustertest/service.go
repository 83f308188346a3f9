package clustertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"
	slices "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// forwarder accepts connections to the ports of services, in the place of kube-proxy. A port
// without a ready endpoint rejects connections.
type forwarder struct {
	services  listers.ServiceLister
	slices    slices.EndpointSliceLister
	addresses map[string]bool // that the machine has
	listeners map[string]net.Listener
	targets   sync.Map // addresses of ready endpoints by the address of a listener
	serving   sync.WaitGroup
}

// forwardServices forwards connections to ClusterIPs until the context ends.
func (c *Cluster) forwardServices(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(c.client, 0)
	f := &forwarder{
		services: factory.Core().V1().Services().Lister(), slices: factory.Discovery().V1().EndpointSlices().Lister(),
		addresses: map[string]bool{}, listeners: map[string]net.Listener{},
	}
	changed := make(chan struct{}, 1)
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify(changed) }, UpdateFunc: func(_, _ any) { notify(changed) }, DeleteFunc: func(any) { notify(changed) },
	}
	for _, informer := range []cache.SharedIndexInformer{
		factory.Core().V1().Services().Informer(), factory.Discovery().V1().EndpointSlices().Informer(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			panic(err) // the informer was stopped
		}
	}

	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer f.close()
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for {
		select {
		case <-changed:
		case <-retry.C: // of a port that was in use
		case <-ctx.Done():
			return
		}

		f.sync()
	}
}

// sync opens and closes listeners as the services and their endpoints have changed.
func (f *forwarder) sync() {
	services, err := f.services.List(labels.Everything())
	if err != nil {
		return
	}

	wanted := map[string]bool{}
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == core.ClusterIPNone {
			continue
		}

		for _, port := range s.Spec.Ports {
			address := net.JoinHostPort(s.Spec.ClusterIP, fmt.Sprint(port.Port))
			if targets := f.endpoints(s, port); len(targets) > 0 {
				wanted[address] = true
				f.targets.Store(address, targets)
				f.listen(s.Spec.ClusterIP, address)
			}
		}
	}

	for address, listener := range f.listeners {
		if !wanted[address] {
			_ = listener.Close()
			delete(f.listeners, address)
			f.targets.Delete(address)
		}
	}
}

// endpoints returns the ready endpoints of a port.
func (f *forwarder) endpoints(s *core.Service, port core.ServicePort) (addresses []string) {
	all, err := f.slices.EndpointSlices(s.Namespace).List(labels.SelectorFromSet(labels.Set{discovery.LabelServiceName: s.Name}))
	if err != nil {
		return nil
	}

	for _, slice := range all {
		for _, p := range slice.Ports {
			if p.Name != nil && *p.Name != port.Name || p.Port == nil {
				continue
			}

			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					addresses = append(addresses, net.JoinHostPort(e.Addresses[0], fmt.Sprint(*p.Port)))
				}
			}
		}
	}

	return addresses
}

func (f *forwarder) listen(host, address string) {
	if f.listeners[address] != nil {
		return
	}

	if !f.addresses[host] {
		if ip("addr add "+host+"/32 dev lo") != nil {
			return
		}

		f.addresses[host] = true
	}

	listener, err := net.Listen("tcp", address)
	if err != nil {
		return
	}

	f.listeners[address] = listener
	f.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}

			f.serving.Go(func() { f.forward(conn.(*net.TCPConn), address) })
		}
	})
}

// forward copies a connection to an endpoint and back.
func (f *forwarder) forward(client *net.TCPConn, address string) {
	defer func() { _ = client.Close() }()
	targets, found := f.targets.Load(address)
	if !found {
		return
	}

	var server net.Conn
	for _, target := range targets.([]string) {
		var err error
		if server, err = net.DialTimeout("tcp", target, 5*time.Second); err == nil {
			break
		}
	}

	if server == nil {
		_ = client.SetLinger(0)
		return
	}

	defer func() { _ = server.Close() }()
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(client, server)
	_ = client.CloseWrite()
	copying.Wait()
}

func (f *forwarder) close() {
	for _, listener := range f.listeners {
		_ = listener.Close()
	}

	f.serving.Wait()
}
