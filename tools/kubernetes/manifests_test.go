package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	_ "sigs.k8s.io/gateway-api/apis/v1" // the module has the definition of HTTPRoute

	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

const manifests = "../../examples/deploy/kubernetes"

// The addresses of the services that the cluster has not: pods reach this process there.
const (
	databaseAddress = "10.244.0.1:5432"
	storageAddress  = "10.244.0.1:7070"
)

// installation is the hub of the manifests.
type installation struct {
	*clientset.Clientset
	cluster *clustertest.Cluster
	applier *applier
}

// TestManifests follows the README with a hub in two pods, PostgreSQL and S3.
func TestManifests(t *testing.T) {
	in := install(t)
	ctx := t.Context()
	defineRoutes(t, in.cluster)
	define(t, in.cluster, filepath.Join(os.Getenv(clustertest.EnvPrograms), "podmonitors.yaml"), monitorKind)
	in.applier.mapper.Reset()
	for _, file := range []string{"networkpolicies.yaml", "hub.yaml", "route.yaml", "metrics.yaml"} {
		require.NoError(t, in.applier.apply(ctx, filepath.Join(manifests, file), in.change), file)
	}
	in.awaitHubs(t)

	hub, err := in.CoreV1().Services("agenthost").Get(ctx, "hub", v1.GetOptions{})
	require.NoError(t, err)
	client := startClient(t, "http://"+hub.Spec.ClusterIP)
	client.run("create_admin " + setupToken)
	require.Contains(t, client.run("deploy_agent"), `"id":"helper"`)
	require.Contains(t, client.run("chat before"), "You wrote: before")
	in.scrape(t, "agenthost", "hub", "agenthost_hub_chats_total")
	in.scrape(t, "agenthost-agents", "runtime", "agenthost_runs_total")

	pods, err := in.CoreV1().Pods("agenthost").List(ctx, v1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, 2)
	evict := func(name string) error {
		return in.CoreV1().Pods("agenthost").EvictV1(ctx, &policy.Eviction{ObjectMeta: v1.ObjectMeta{Name: name, Namespace: "agenthost"}})
	}
	awaitNoError(t, func() error { return evict(pods.Items[0].Name) })
	require.True(t, apierrors.IsTooManyRequests(evict(pods.Items[1].Name)), "the other one remains")
	require.Contains(t, client.run("chat during"), "You wrote: during")
	awaitNoError(t, func() error { return evict(pods.Items[1].Name) })
	in.awaitHubs(t)
	client.run("ready")
	require.Contains(t, client.run("until_true is_running && chat after"), "You wrote: after")

	client.run(`call -X POST $base/api/v1/admin/agents/helper/deploy/rotate-key`)
	client.run(`call $base/api/v1/admin/agents/helper/deploy/logs`)
	client.run(`call -X DELETE $base/api/v1/admin/agents/helper/deploy`)
	awaitNoError(t, func() error {
		list, err := in.CoreV1().Pods("agenthost-agents").List(ctx, v1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = errors.New("pods of the agent remain")
		}
		return err
	})
	for _, call := range in.cluster.Calls(t, hubAccount) {
		require.NotEqual(t, 403, call.Status, "%+v", call)
		require.Equal(t, "agenthost-agents", call.Namespace, "%+v", call)
	}
	for _, file := range []string{"networkpolicies.yaml", "hub.yaml", "route.yaml", "metrics.yaml", "rbac.yaml"} { // applied again, nothing changes
		require.NoError(t, in.applier.apply(ctx, filepath.Join(manifests, file), in.change), file)
	}
}

var monitorKind = schema.GroupKind{Group: "monitoring.coreos.com", Kind: "PodMonitor"}

// scrape reads the metrics of the pods that a PodMonitor selects, from the port that it names, as
// Prometheus does. One of them has a metric.
func (in installation) scrape(t *testing.T, namespace, name, metric string) {
	t.Helper()
	o, err := in.applier.client.Resource(schema.GroupVersionResource{Group: monitorKind.Group, Version: "v1", Resource: "podmonitors"}).
		Namespace(namespace).Get(t.Context(), name, v1.GetOptions{})
	require.NoError(t, err)
	labels, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	require.NoError(t, err)
	endpoints, _, err := unstructured.NestedSlice(o.Object, "spec", "podMetricsEndpoints")
	require.NoError(t, err)
	endpoint := endpoints[0].(map[string]any)
	pods, err := in.CoreV1().Pods(namespace).List(t.Context(), v1.ListOptions{LabelSelector: v1.FormatLabelSelector(&v1.LabelSelector{MatchLabels: labels})})
	require.NoError(t, err)
	require.NotEmpty(t, pods.Items)
	var all strings.Builder
	for _, pod := range pods.Items {
		for _, port := range pod.Spec.Containers[0].Ports {
			if port.Name == endpoint["port"] {
				url := fmt.Sprintf("http://%s:%d%s", pod.Status.PodIP, port.ContainerPort, endpoint["path"])
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
				require.NoError(t, err)
				all.WriteString(read(t, req))
			}
		}
	}
	require.Contains(t, all.String(), metric)
}

const (
	hubAccount = "system:serviceaccount:agenthost:hub"
	setupToken = "planted-setup-token-0123456789"
)

// install applies what the hub needs before it starts.
func install(t *testing.T) installation {
	t.Helper()
	in := installation{cluster: clustertest.Start(t)}
	var err error
	in.Clientset, err = clientset.NewForConfig(in.cluster.Config())
	require.NoError(t, err)
	in.applier = newApplier(t, in.cluster)
	ctx := t.Context()
	require.NoError(t, in.applier.apply(ctx, filepath.Join(manifests, "namespaces.yaml"), func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{"scheduler.alpha.kubernetes.io/node-selector": "agenthost.test/namespace=" + o.GetName()})
	}))
	require.NoError(t, in.applier.apply(ctx, filepath.Join(manifests, "rbac.yaml"), nil))
	hub, err := hubBinary()
	require.NoError(t, err)
	runtime, err := runtimeBinary()
	require.NoError(t, err)
	image := imageOf(t, "/agenthost:")
	in.cluster.Node(t, clustertest.NodeOptions{
		Namespace: "agenthost", Images: map[string]string{image: hub}, Env: map[string]map[string]string{image: imageVariables(t)},
	})
	in.cluster.Node(t, clustertest.NodeOptions{Namespace: "agenthost-agents", Images: map[string]string{imageOf(t, "/agenthost-runtime:"): runtime}})
	startStorage(t)
	_, err = in.CoreV1().Secrets("agenthost").Create(ctx, &core.Secret{ObjectMeta: v1.ObjectMeta{Name: "hub"}, StringData: map[string]string{
		"database-url": startDatabase(t), "encryption-key": "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "setup-token": setupToken,
		"aws-access-key-id": storageKey, "aws-secret-access-key": storageSecret,
	}}, v1.CreateOptions{})
	require.NoError(t, err)
	return in
}

// change sets the values that the README asks to set.
func (in installation) change(o *unstructured.Unstructured) {
	if o.GetKind() != "ConfigMap" {
		return
	}
	data, _, _ := unstructured.NestedStringMap(o.Object, "data")
	data["BLOB_URL"] += "&endpoint=http://" + storageAddress
	_ = unstructured.SetNestedStringMap(o.Object, data, "data")
}

func (in installation) awaitHubs(t *testing.T) {
	t.Helper()
	awaitNoError(t, func() error {
		d, err := in.AppsV1().Deployments("agenthost").Get(t.Context(), "hub", v1.GetOptions{})
		if err == nil && (d.Status.ReadyReplicas != 2 || d.Status.Replicas != 2 || d.Status.ObservedGeneration != d.Generation) {
			err = errors.New("the hubs are not ready")
		}
		return err
	})
}

// awaitNoError repeats a function for at most a minute.
func awaitNoError(t *testing.T, f func() error) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(time.Minute); ; <-ticker.C {
		err := f()
		if err == nil {
			return
		}
		require.False(t, time.Now().After(end), "not within a minute: %v", err)
	}
}

var routeKind = schema.GroupKind{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute"}

// gatewayModule returns the directory of the module with the definitions of the Gateway API.
func gatewayModule(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// imageOf returns the image in the manifests whose name contains a text.
func imageOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, "hub.yaml"))
	require.NoError(t, err)
	for word := range strings.FieldsSeq(string(text)) {
		if strings.Contains(word, name) {
			return word
		}
	}
	require.FailNow(t, "no image", name)
	return ""
}

// imageVariables returns the variables of the hub's image.
func imageVariables(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	_, target, _ := strings.Cut(string(text), "FROM base AS hub\n")
	all := map[string]string{}
	for line := range strings.Lines(target) {
		list, _ := strings.CutPrefix(line, "ENV ")
		for assignment := range strings.FieldsSeq(list) {
			if name, value, found := strings.Cut(assignment, "="); found && list != line {
				all[name] = value
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// applier applies files as kubectl apply --server-side does.
type applier struct {
	client *dynamic.DynamicClient
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func newApplier(t *testing.T, c *clustertest.Cluster) *applier {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config())
	require.NoError(t, err)
	discovered, err := discovery.NewDiscoveryClientForConfig(c.Config())
	require.NoError(t, err)
	return &applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered))}
}

// apply applies all objects of a file, after a change. Unknown fields are errors.
func (a *applier) apply(ctx context.Context, file string, change func(*unstructured.Unstructured)) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for r := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<20); ; {
		var o unstructured.Unstructured
		if err := r.Decode(&o.Object); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if len(o.Object) == 0 {
			continue
		}
		if change != nil {
			change(&o)
		}
		if err := a.applyObject(ctx, &o); err != nil {
			return err
		}
	}
}

func (a *applier) applyObject(ctx context.Context, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var client dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = a.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, o.GetName(), types.ApplyPatchType, text, v1.PatchOptions{FieldManager: "kubectl", FieldValidation: "Strict"})
	return err
}

// startDatabase returns the URL of a database for pods.
func startDatabase(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	socket := filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")
	if port := u.Query().Get("port"); port != "" {
		socket = filepath.Join(u.Query().Get("host"), ".s.PGSQL."+port)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", databaseAddress)
	require.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the pod
				defer func() { _ = client.Close() }()
				server, err := net.Dial("unix", socket)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
				_, _ = io.Copy(client, server)
			}()
		}
	})
	return "postgres://" + u.User.String() + "@" + databaseAddress + u.Path + "?sslmode=disable"
}

const (
	storageKey    = "AKIAPLANTED0KEY"
	storageSecret = "planted-secret-access-key-0123456789"
)

// startStorage starts a server with the interface of S3.
func startStorage(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "agenthost"), 0o700))
	program := filepath.Join(os.Getenv(clustertest.EnvPrograms), "versitygw")
	cmd := exec.CommandContext(context.Background(), program, "--port", storageAddress, "--region", "eu-central-1", "posix", dir)
	cmd.Env = []string{"ROOT_ACCESS_KEY=" + storageKey, "ROOT_SECRET_KEY=" + storageSecret}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	awaitNoError(t, func() error {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", storageAddress)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// client runs the functions of testdata/client.sh.
type client struct {
	t   *testing.T
	env []string
}

func startClient(t *testing.T, base string) client {
	t.Helper()
	return client{t: t, env: append(os.Environ(), "base="+base, "scratch="+t.TempDir())}
}

func (c client) run(script string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "bash", "-euo", "pipefail", "-c", ". ../../examples/deploy/testdata/client.sh; "+script)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s: %s", script, out)
	return string(out)
}
