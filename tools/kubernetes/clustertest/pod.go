package clustertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod runs the containers of one pod. Its goroutine ends when all processes have ended and the
// object is gone, or when it is killed.
type pod struct {
	node       *Node
	name       string
	namespace  string
	uid        types.UID
	spec       core.PodSpec
	dir        string
	netns      string
	address    string
	started    meta.Time
	containers []*container
	killed     chan struct{} // closed by kill
	killOnce   sync.Once
	changed    chan struct{} // the object has changed
	dirty      chan struct{} // the status has changed

	mu      sync.Mutex // guards the fields below
	object  *core.Pod
	problem string // why the volumes are not ready
	ready   bool   // the volumes have been ready
}

func newPod(n *Node, object *core.Pod) *pod {
	number := n.cluster.addresses.Add(1) + 1
	p := &pod{
		node: n, name: object.Name, namespace: object.Namespace, uid: object.UID, spec: object.Spec, object: object, started: meta.Now(),
		dir: filepath.Join(n.dir, string(object.UID)), netns: "pod-" + string(object.UID),
		address: net.IPv4(10, 244, byte(number>>8), byte(number)).String(), //nolint:gosec // G115: 65,000 pods at most
		killed:  make(chan struct{}), changed: make(chan struct{}, 1), dirty: make(chan struct{}, 1),
	}
	for i := range object.Spec.Containers {
		p.containers = append(p.containers, newContainer(p, &object.Spec.Containers[i]))
	}

	return p
}

func (p *pod) set(object *core.Pod) {
	p.mu.Lock()
	p.object = object
	p.mu.Unlock()
	notify(p.changed)
}

// notify makes the next receive of a channel return. The channel has a buffer of one.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (p *pod) kill() { p.killOnce.Do(func() { close(p.killed) }) }

func (p *pod) crash(name string) bool {
	for _, c := range p.containers {
		if c.spec.Name == name {
			return c.signalKill()
		}
	}

	return false
}

func (p *pod) latest() *core.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.object
}

// run runs the pod from its creation to its end.
func (p *pod) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var publishing sync.WaitGroup
	publishing.Go(func() { p.publish(ctx) })
	defer publishing.Wait()
	defer cancel()

	defer p.removeFiles()
	if p.prepare(ctx) {
		p.runContainers(ctx)
	}

	for p.latest().DeletionTimestamp == nil { // it has ended; its object remains
		select {
		case <-p.changed:
		case <-p.killed:
			return
		}
	}

	_ = p.report(ctx) // the object is deleted also without its last status
	p.deleteObject(ctx)
}

// prepare creates the network and the volumes. It returns false if the pod is removed before.
func (p *pod) prepare(ctx context.Context) bool {
	if err := p.createNetwork(); err != nil {
		p.setProblem(err)
		return false
	}

	for tick := time.NewTicker(200 * time.Millisecond); ; {
		err := p.syncVolumes(ctx)
		p.setProblem(err)
		if err == nil {
			tick.Stop()
			return true
		}

		select {
		case <-tick.C:
		case <-p.killed:
			return false
		}

		if p.latest().DeletionTimestamp != nil {
			return false
		}
	}
}

func (p *pod) setProblem(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}

	p.mu.Lock()
	changed := p.problem != text
	p.problem = text
	p.ready = p.ready || err == nil
	p.mu.Unlock()
	if changed && err != nil {
		p.event(core.EventTypeWarning, "FailedMount", "MountVolume.SetUp failed: "+text)
	}

	notify(p.dirty)
}

// createNetwork creates a network namespace with the address of the pod.
func (p *pod) createNetwork() error {
	link := fmt.Sprintf("v%s", string(p.uid)[:12])
	if err := ip("netns add " + p.netns); err != nil {
		return err
	}

	if err := ip("link add "+link+" type veth peer name eth0 netns "+p.netns,
		"link set "+link+" master "+bridge+" up"); err != nil {
		return err
	}

	return ipIn(p.netns, "link set lo up", "addr add "+p.address+"/16 dev eth0", "link set eth0 up", "route add default via "+gateway)
}

// removeFiles removes the network and the volumes.
func (p *pod) removeFiles() {
	_ = ip("netns delete " + p.netns)
	_ = os.RemoveAll(p.dir)
}

// runContainers runs the containers until the pod ends.
func (p *pod) runContainers(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	stop := make(chan struct{})
	for _, c := range p.containers {
		running.Go(func() { c.run(ctx, stop) })
	}

	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()

	sync := time.NewTicker(p.node.options.SyncEvery)
	defer sync.Stop()
	var stopping time.Time
	var deadline <-chan time.Time
	for {
		select {
		case <-p.changed:
		case <-sync.C:
		case <-deadline:
			cancel() // kills all processes
			deadline = nil
		case <-p.killed:
			cancel()
			<-ended
			return
		case <-ended:
			return
		}

		object := p.latest()
		if object.DeletionTimestamp == nil {
			p.setProblem(p.syncVolumes(ctx))
			continue
		}

		if stopping.IsZero() {
			stopping = time.Now()
			close(stop)
		}

		grace := time.Duration(*object.DeletionGracePeriodSeconds) * time.Second // a later request may shorten it
		deadline = time.After(time.Until(stopping.Add(grace)))
	}
}

// deleteObject confirms that the pod has ended.
func (p *pod) deleteObject(ctx context.Context) {
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		options := meta.NewDeleteOptions(0)
		options.Preconditions = meta.NewUIDPreconditions(string(p.uid))
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := p.node.cluster.client.CoreV1().Pods(p.namespace).Delete(attempt, p.name, *options)
		cancel()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			tick.Stop()
			return
		}

		select {
		case <-tick.C:
		case <-p.killed:
			return
		}
	}
}

// event records an event of the pod.
func (p *pod) event(kind, reason, message string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	now := meta.Now()
	_, _ = p.node.cluster.client.CoreV1().Events(p.namespace).Create(ctx, &core.Event{ // an event may be lost
		ObjectMeta:     meta.ObjectMeta{GenerateName: p.name + "."},
		InvolvedObject: core.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.namespace, Name: p.name, UID: p.uid},
		Type:           kind, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: core.EventSource{Component: "kubelet", Host: p.node.Name},
	}, meta.CreateOptions{})
}
