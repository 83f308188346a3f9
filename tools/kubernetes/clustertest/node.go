package clustertest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// NodeOptions configures a node.
type NodeOptions struct {
	// Namespace is the namespace whose pods the node runs. Required.
	Namespace string

	// Images has the images that the node can pull: by name, the program that is the entry point.
	// In a container it is /usr/local/bin/NAME, next to the programs of this machine; its user is
	// 65532. Other images get ErrImagePull.
	Images map[string]string

	// Env has the variables of the images, by the names of the images.
	Env map[string]map[string]string

	// CPU and Memory are what the pods of the node may request together. Default to 64 and 64Gi.
	CPU, Memory string

	// BackOff is the pause before a container is started again for the first time; it doubles up to
	// thirty times that. Defaults to 500 ms; a kubelet has 10 s.
	BackOff time.Duration

	// SyncEvery is how often volumes are compared with their Secrets and ConfigMaps, in addition to
	// each change of a pod. Defaults to a minute, as that of a kubelet.
	SyncEvery time.Duration
}

// Node is a stand-in for a machine with a kubelet.
type Node struct {
	Name    string
	cluster *Cluster
	options NodeOptions
	dir     string
	group   string
	address string

	mu     sync.Mutex // guards pods
	pods   map[types.UID]*pod
	done   sync.WaitGroup // of pods
	images map[string]string
}

// Node starts a node, which ends with the test: its pods are killed then.
func (c *Cluster) Node(tb testing.TB, options NodeOptions) *Node {
	tb.Helper()
	options.CPU, options.Memory = cmp.Or(options.CPU, "64"), cmp.Or(options.Memory, "64Gi")
	options.BackOff = cmp.Or(options.BackOff, 500*time.Millisecond)
	options.SyncEvery = cmp.Or(options.SyncEvery, time.Minute)
	number := c.nodes.Add(1)
	n := &Node{
		Name: fmt.Sprintf("node-%d", number), cluster: c, options: options,
		address: fmt.Sprintf("10.245.%d.%d", number/250, number%250+1), pods: map[types.UID]*pod{},
	}
	n.dir = filepath.Join(scratch, n.Name)
	n.group = filepath.Join(groups, os.Getenv(envInside), n.Name)
	require.NoError(tb, os.MkdirAll(n.dir, 0o755))
	require.NoError(tb, n.copyImages())
	require.NoError(tb, os.MkdirAll(n.group, 0o755))
	require.NoError(tb, ip("addr add "+n.address+"/32 dev lo"))
	n.serve(tb)
	n.register(tb)

	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { n.watch(ctx) })
	tb.Cleanup(func() {
		cancel()
		watching.Wait()
		n.killAll()
		n.done.Wait()
		n.unregister(tb)
	})
	return n
}

// copyImages copies the programs: a test may replace or delete its file, an image does not change.
func (n *Node) copyImages() error {
	n.images = map[string]string{}
	number := 0
	for image, source := range n.options.Images {
		number++
		dir := filepath.Join(n.dir, "images", fmt.Sprint(number))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}

		target := filepath.Join(dir, filepath.Base(source))
		text, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("read image %s: %w", image, err)
		}

		if err := os.WriteFile(target, text, 0o755); err != nil { //nolint:gosec // G306: containers execute it
			return err
		}

		n.images[image] = target
	}

	return nil
}

// register creates the node object. The API server marks new nodes as not ready.
func (n *Node) register(tb testing.TB) {
	tb.Helper()
	ctx, nodes := tb.Context(), n.cluster.client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &core.Node{ObjectMeta: meta.ObjectMeta{Name: n.Name, Labels: map[string]string{
		labelNamespace: n.options.Namespace, core.LabelHostname: n.Name, core.LabelOSStable: "linux", core.LabelArchStable: "amd64",
	}}}, meta.CreateOptions{})
	require.NoError(tb, err)
	node.Spec.Taints = nil
	node, err = nodes.Update(ctx, node, meta.UpdateOptions{})
	require.NoError(tb, err)
	node.Status = core.NodeStatus{
		Capacity: core.ResourceList{
			core.ResourceCPU: resource.MustParse(n.options.CPU), core.ResourceMemory: resource.MustParse(n.options.Memory),
			core.ResourcePods: resource.MustParse("110"), core.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		},
		Addresses:       []core.NodeAddress{{Type: core.NodeInternalIP, Address: n.address}, {Type: core.NodeHostName, Address: n.Name}},
		DaemonEndpoints: core.NodeDaemonEndpoints{KubeletEndpoint: core.DaemonEndpoint{Port: kubeletPort}},
		Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue, Reason: "KubeletReady",
			LastHeartbeatTime: meta.Now(), LastTransitionTime: meta.Now()}},
	}
	node.Status.Allocatable = node.Status.Capacity
	_, err = nodes.UpdateStatus(ctx, node, meta.UpdateOptions{})
	require.NoError(tb, err)
}

// unregister removes the pods and the object of the node.
func (n *Node) unregister(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, wait(func(ctx context.Context) error {
		now := meta.NewDeleteOptions(0)
		pods := n.cluster.client.CoreV1().Pods(n.options.Namespace)
		if err := pods.DeleteCollection(ctx, *now, meta.ListOptions{FieldSelector: "spec.nodeName=" + n.Name}); err != nil {
			return err
		}

		return n.cluster.client.CoreV1().Nodes().Delete(ctx, n.Name, *now)
	}))
	require.NoError(tb, os.RemoveAll(n.dir))
	removeGroups(n.group)
}

// serve serves the API of a kubelet, of which the API server calls the logs.
func (n *Node) serve(tb testing.TB) {
	tb.Helper()
	config, err := n.cluster.authority.server(n.address)
	require.NoError(tb, err)
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", n.address, kubeletPort))
	require.NoError(tb, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.serveLogs)
	server := &http.Server{Handler: mux, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ServeTLS(listener, "", "") })
	tb.Cleanup(func() { _ = server.Close(); serving.Wait() })
}

const kubeletPort = 10250

// watch starts and informs the pods that are bound to the node until the context ends.
func (n *Node) watch(ctx context.Context) {
	source := cache.NewListWatchFromClient(n.cluster.client.CoreV1().RESTClient(), "pods", core.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", n.Name))
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: &core.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { n.update(ctx, o.(*core.Pod)) },
			UpdateFunc: func(_, o any) { n.update(ctx, o.(*core.Pod)) },
			DeleteFunc: func(o any) {
				if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}

				n.remove(o.(*core.Pod).UID)
			},
		},
	})
	controller.RunWithContext(ctx)
}

func (n *Node) update(ctx context.Context, object *core.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[object.UID]
	if p == nil {
		if object.Status.Phase == core.PodSucceeded || object.Status.Phase == core.PodFailed {
			return // it was removed from this node after its end
		}

		p = newPod(n, object)
		n.pods[object.UID] = p
		n.done.Go(func() { p.run(context.WithoutCancel(ctx)) })
	}

	p.set(object)
}

// remove kills the processes of a pod whose object is gone.
func (n *Node) remove(uid types.UID) {
	n.mu.Lock()
	p := n.pods[uid]
	delete(n.pods, uid)
	n.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

func (n *Node) killAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		p.kill()
	}
}

// Kill kills the processes of a container as a crash does. It reports whether one was running.
func (n *Node) Kill(podName, container string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.name == podName {
			return p.crash(container)
		}
	}

	return false
}
