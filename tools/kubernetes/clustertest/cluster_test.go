package clustertest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m) }

const (
	image    = "server:test"
	patience = time.Minute
)

// program returns the path of testdata/server.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join("/tmp/agenthost-kubernetes", "server")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, "./testdata/server").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// place is a namespace with a node.
type place struct {
	*kubernetes.Clientset
	cluster   *clustertest.Cluster
	node      *clustertest.Node
	namespace string
}

func newPlace(t *testing.T) place {
	t.Helper()
	t.Parallel()
	path, err := program()
	require.NoError(t, err)
	c := clustertest.Start(t)
	client, err := kubernetes.NewForConfig(c.Config())
	require.NoError(t, err)
	p := place{Clientset: client, cluster: c, namespace: c.Namespace(t)}
	p.node = c.Node(t, clustertest.NodeOptions{Namespace: p.namespace, Images: map[string]string{image: path}, CPU: "8"})
	return p
}

func spec(args ...string) core.PodSpec {
	no, yes, group, grace := false, true, int64(65532), int64(5)
	return core.PodSpec{
		AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace,
		SecurityContext: &core.PodSecurityContext{
			RunAsNonRoot: &yes, FSGroup: &group, SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []core.Container{{
			Name: "main", Image: image, Args: args, TerminationMessagePolicy: core.TerminationMessageFallbackToLogsOnError,
			Ports: []core.ContainerPort{{Name: "http", ContainerPort: 8080}},
			SecurityContext: &core.SecurityContext{
				AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}},
			},
			ReadinessProbe: &core.Probe{PeriodSeconds: 1, ProbeHandler: core.ProbeHandler{
				HTTPGet: &core.HTTPGetAction{Path: "/health", Port: intstr.FromString("http")},
			}},
		}},
	}
}

// start creates a pod, and returns when it is as wanted.
func (p place) start(t *testing.T, name string, s core.PodSpec, wanted func(core.PodStatus) bool) *core.Pod {
	t.Helper()
	_, err := p.CoreV1().Pods(p.namespace).Create(t.Context(), &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: s}, meta.CreateOptions{})
	require.NoError(t, err)
	return p.await(t, name, wanted)
}

func (p place) await(t *testing.T, name string, wanted func(core.PodStatus) bool) (pod *core.Pod) {
	t.Helper()
	var err error
	wait(t, func() bool {
		pod, err = p.CoreV1().Pods(p.namespace).Get(t.Context(), name, meta.GetOptions{})
		return err == nil && wanted(pod.Status)
	}, func() any { return []any{err, pod} })
	return pod
}

func wait(t *testing.T, f func() bool, detail func() any) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); !f(); <-ticker.C {
		if time.Now().After(end) {
			require.FailNow(t, "not within a minute", "%+v", detail())
		}
	}
}

func isReady(s core.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == core.PodReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}

// call returns the status and the body of a response, 0 if there is none.
func call(t *testing.T, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func TestADeploymentServes(t *testing.T) {
	p := newPlace(t)
	labels := map[string]string{"app": "server"}
	_, err := p.AppsV1().Deployments(p.namespace).Create(t.Context(), &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: "server"},
		Spec: apps.DeploymentSpec{
			Selector: &meta.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels}, Spec: spec()},
		},
	}, meta.CreateOptions{})
	require.NoError(t, err)
	service, err := p.CoreV1().Services(p.namespace).Create(t.Context(), &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: "server"},
		Spec:       core.ServiceSpec{Selector: labels, Ports: []core.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}},
	}, meta.CreateOptions{})
	require.NoError(t, err)
	url := "http://" + service.Spec.ClusterIP
	var body string
	wait(t, func() bool {
		var status int
		status, body = call(t, http.MethodGet, url+"/user")
		return status == http.StatusOK
	}, func() any { return body })
	require.Contains(t, body, "65532:65532\n")
	require.Regexp(t, `CapEff:\s+0+\n`, body)
	require.Regexp(t, `CapBnd:\s+0+\n`, body)
	require.Regexp(t, `NoNewPrivs:\s+1\n`, body)
	status, body := call(t, http.MethodPut, url+"/file?path=/etc/a&text=b")
	require.Equal(t, http.StatusForbidden, status, body)

	list, err := p.CoreV1().Pods(p.namespace).List(t.Context(), meta.ListOptions{LabelSelector: "app=server"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	text, err := p.CoreV1().Pods(p.namespace).GetLogs(list.Items[0].Name, &core.PodLogOptions{}).DoRaw(t.Context())
	require.NoError(t, err)
	require.Equal(t, "serves\n", string(text))

	require.NoError(t, p.AppsV1().Deployments(p.namespace).Delete(t.Context(), "server", meta.DeleteOptions{}))
	wait(t, func() bool {
		status, _ = call(t, http.MethodGet, url+"/health")
		list, err = p.CoreV1().Pods(p.namespace).List(t.Context(), meta.ListOptions{})
		return status == 0 && err == nil && len(list.Items) == 0
	}, func() any { return list })
}

func TestAnImageThatIsUnknown(t *testing.T) {
	p := newPlace(t)
	s := spec()
	s.Containers[0].Image = "other:1"
	pod := p.start(t, "pod", s, func(s core.PodStatus) bool {
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	require.Equal(t, core.PodPending, pod.Status.Phase)
	require.Contains(t, pod.Status.ContainerStatuses[0].State.Waiting.Message, "other:1: not found")
}

func TestContainersThatEnd(t *testing.T) {
	p := newPlace(t)
	t.Run("at the start", func(t *testing.T) {
		pod := p.start(t, "fails", spec("fail"), func(s core.PodStatus) bool {
			return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting != nil &&
				s.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
		})
		last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
		require.Equal(t, int32(1), last.ExitCode)
		require.Contains(t, last.Message, "the configuration is incorrect")
		require.Positive(t, pod.Status.ContainerStatuses[0].RestartCount)
		text, err := p.CoreV1().Pods(p.namespace).GetLogs("fails", &core.PodLogOptions{Previous: true}).DoRaw(t.Context())
		require.NoError(t, err)
		require.Contains(t, string(text), "the configuration is incorrect")
	})
	t.Run("without memory", func(t *testing.T) {
		s := spec()
		s.Containers[0].Resources.Limits = core.ResourceList{core.ResourceMemory: resource.MustParse("64Mi")}
		pod := p.start(t, "eats", s, isReady)
		call(t, http.MethodPost, "http://"+pod.Status.PodIP+":8080/memory")
		pod = p.await(t, "eats", func(s core.PodStatus) bool { return s.ContainerStatuses[0].LastTerminationState.Terminated != nil })
		require.Equal(t, "OOMKilled", pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.Reason)
		require.Equal(t, int32(137), pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode)
	})
	t.Run("killed", func(t *testing.T) {
		p.start(t, "killed", spec(), isReady)
		require.True(t, p.node.Kill("killed", "main"))
		p.await(t, "killed", func(s core.PodStatus) bool { return s.ContainerStatuses[0].RestartCount == 1 && isReady(s) })
	})
}

func TestVolumes(t *testing.T) {
	p := newPlace(t)
	claim := &core.PersistentVolumeClaim{ObjectMeta: meta.ObjectMeta{Name: "data"}, Spec: core.PersistentVolumeClaimSpec{
		AccessModes: []core.PersistentVolumeAccessMode{core.ReadWriteOnce},
		Resources:   core.VolumeResourceRequirements{Requests: core.ResourceList{core.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	_, err := p.CoreV1().PersistentVolumeClaims(p.namespace).Create(t.Context(), claim, meta.CreateOptions{})
	require.NoError(t, err)
	secret := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: "keys"}, StringData: map[string]string{"a": "1", "b": "2"}}
	mode, yes := int32(0o400), true
	s := spec()
	s.AutomountServiceAccountToken = &yes
	s.Volumes = []core.Volume{
		{Name: "keys", VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{SecretName: "keys", DefaultMode: &mode}}},
		{Name: "tmp", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}},
		{Name: "data", VolumeSource: core.VolumeSource{PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
	}
	s.Containers[0].VolumeMounts = []core.VolumeMount{
		{Name: "keys", MountPath: "/keys", ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"}, {Name: "data", MountPath: "/data"},
	}
	p.start(t, "pod", s, func(s core.PodStatus) bool { return len(s.ContainerStatuses) == 1 })
	_, err = p.CoreV1().Secrets(p.namespace).Create(t.Context(), secret, meta.CreateOptions{}) // the pod waits for it
	require.NoError(t, err)
	pod := p.await(t, "pod", isReady)
	url := "http://" + pod.Status.PodIP + ":8080/file?path="
	read := func(path string) string { _, text := call(t, http.MethodGet, url+path); return text }
	require.Equal(t, "1", read("/keys/a"))
	require.NotEmpty(t, read("/var/run/secrets/kubernetes.io/serviceaccount/token"))
	for _, path := range []string{"/tmp/x", "/data/x"} {
		status, text := call(t, http.MethodPut, url+path+"&text=kept")
		require.Equal(t, http.StatusOK, status, text)
	}

	secret.StringData = map[string]string{"a": "3"}
	_, err = p.CoreV1().Secrets(p.namespace).Update(t.Context(), secret, meta.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, "1", read("/keys/a"), "a kubelet does not watch the Secret of a volume")
	pod.Annotations = map[string]string{"changed": "yes"}
	wait(t, func() bool {
		current, err := p.CoreV1().Pods(p.namespace).Get(t.Context(), "pod", meta.GetOptions{})
		require.NoError(t, err)
		current.Annotations = map[string]string{"changed": "yes"}
		_, err = p.CoreV1().Pods(p.namespace).Update(t.Context(), current, meta.UpdateOptions{})
		return err == nil
	}, func() any { return nil })
	wait(t, func() bool { return read("/keys/a") == "3" && strings.Contains(read("/keys/b"), "no such file") },
		func() any { return read("/keys/a") })

	require.NoError(t, p.CoreV1().Pods(p.namespace).Delete(t.Context(), "pod", meta.DeleteOptions{}))
	wait(t, func() bool {
		_, err = p.CoreV1().Pods(p.namespace).Get(t.Context(), "pod", meta.GetOptions{})
		return apierrors.IsNotFound(err)
	}, func() any { return err })
	pod = p.start(t, "pod", s, isReady)
	url = "http://" + pod.Status.PodIP + ":8080/file?path="
	require.Equal(t, "kept", read("/data/x"))
	require.Contains(t, read("/tmp/x"), "no such file")
}

func TestAPodThatIgnoresItsEnd(t *testing.T) {
	p := newPlace(t)
	s := spec("ignore")
	grace := int64(3600)
	s.TerminationGracePeriodSeconds = &grace
	pod := p.start(t, "pod", s, isReady)
	pods := p.CoreV1().Pods(p.namespace)
	require.NoError(t, pods.Delete(t.Context(), "pod", meta.DeleteOptions{}))
	status, _ := call(t, http.MethodGet, "http://"+pod.Status.PodIP+":8080/health")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, pods.Delete(t.Context(), "pod", *meta.NewDeleteOptions(1)), "a later call may have less patience")
	var err error
	wait(t, func() bool {
		_, err = pods.Get(t.Context(), "pod", meta.GetOptions{})
		return apierrors.IsNotFound(err)
	}, func() any { return err })
}

func TestPodsThatNoNodeTakes(t *testing.T) {
	p := newPlace(t)
	s := spec()
	s.Containers[0].Resources.Requests = core.ResourceList{core.ResourceCPU: resource.MustParse("9")}
	p.start(t, "pod", s, func(s core.PodStatus) bool { // the scheduler may know the node later than the pod
		return slices.ContainsFunc(s.Conditions, func(c core.PodCondition) bool {
			return c.Type == core.PodScheduled && c.Reason == core.PodReasonUnschedulable && strings.Contains(c.Message, "Insufficient cpu")
		})
	})

	s = spec()
	s.SecurityContext.RunAsNonRoot = nil
	_, err := p.CoreV1().Pods(p.namespace).Create(t.Context(), &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "root"}, Spec: s}, meta.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), err)
	require.ErrorContains(t, err, `violates PodSecurity "restricted`)
}

// TestFaults does not run next to other tests, because they share the API server.
func TestFaults(t *testing.T) {
	path, err := program()
	require.NoError(t, err)
	c := clustertest.Start(t)
	client, err := kubernetes.NewForConfig(c.Config())
	require.NoError(t, err)
	p := place{Clientset: client, cluster: c, namespace: c.Namespace(t)}
	c.Node(t, clustertest.NodeOptions{Namespace: p.namespace, Images: map[string]string{image: path}})
	pod := p.start(t, "pod", spec(), isReady)

	resume := c.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = p.CoreV1().Pods(p.namespace).Get(ctx, "pod", meta.GetOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	resume()
	p.await(t, "pod", isReady)

	c.StopAPIServer(t)
	call(t, http.MethodPost, "http://"+pod.Status.PodIP+":8080/exit?code=1")
	c.StartAPIServer(t)
	p.await(t, "pod", func(s core.PodStatus) bool { return s.ContainerStatuses[0].RestartCount == 1 && isReady(s) })

	c.RestartAPIServer(t)
	_, err = p.CoreV1().Pods(p.namespace).Get(t.Context(), "pod", meta.GetOptions{})
	require.NoError(t, err)
}
