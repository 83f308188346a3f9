// Package clustertest starts a Kubernetes control plane for tests: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, the real programs, and nodes whose pods are
// processes.
//
//	func TestMain(m *testing.M) { cluster.Main(m) }
//
//	c := cluster.Start(t)
//	namespace := c.Namespace(t)
//	images := map[string]string{"agenthost-runtime:test": path}
//	c.Node(t, cluster.NodeOptions{Namespace: namespace, Images: images})
//
// Main runs the test program in network, mount and process namespaces of its own: addresses of pods
// and services are routed there and nowhere else, and all processes end with the program. It needs
// root on Linux.
//
// A node is a stand-in for the kubelet and does what it does where a driver can observe it: pods
// have their own addresses, mounts, users and limits of memory; images that are unknown, containers
// that end, probes, volumes, periods of grace and logs are reported as the kubelet reports them. It
// ignores CPU limits, exec, init containers, restart policies and NetworkPolicies. A ClusterIP is a
// forwarder in this process that connects to a ready endpoint; cluster DNS does not exist.
package clustertest
