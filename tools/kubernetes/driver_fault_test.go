package kubernetes_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

// brokenImage is an image whose program fails.
const brokenImage = "broken:1"

// end deletes the deployment.
func (p place) end(t *testing.T, d deploy.Driver, fence int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.NoError(t, d.Delete(t.Context(), claim(fence)))
		o, err := d.Observe(t.Context(), key)
		return err == nil && !o.Exists
	}, patience, 50*time.Millisecond)
	p.nothingLeft()
}

// The message of a runtime that does not run is the cause.
func TestCauses(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*kubernetes.Config)
		quota  string
		phase  deploy.Phase // of the runtime; Running by default
		want   string
	}{
		"out of memory": {change: func(c *kubernetes.Config) { c.Default.Memory = "8Mi" }, phase: deploy.Exited, want: "it needed more memory than its limit of 8Mi"},
		"crash loop":    {change: func(c *kubernetes.Config) { c.Image = brokenImage }, phase: deploy.Exited, want: "exit status 1"},
		"image":         {change: func(c *kubernetes.Config) { c.Image = "missing:1" }, want: "the image missing:1 cannot be pulled"},
		"full node":     {change: func(c *kubernetes.Config) { c.Default.Memory = "500Gi" }, want: "no node has room for it"},
		"quota":         {change: func(*kubernetes.Config) {}, quota: "1Mi", want: "the quota of the namespace is used up"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, func(o *clustertest.NodeOptions) { o.Images[brokenImage] = "/bin/false" })
			if test.quota != "" {
				_, err := p.CoreV1().ResourceQuotas(p.namespace).Create(t.Context(), &core.ResourceQuota{
					ObjectMeta: meta.ObjectMeta{Name: "small"},
					Spec:       core.ResourceQuotaSpec{Hard: core.ResourceList{core.ResourceLimitsMemory: resource.MustParse(test.quota)}},
				}, meta.CreateOptions{})
				require.NoError(t, err)
			}
			d := p.open(t, test.change)
			require.NoError(t, d.Apply(t.Context(), claim(1), 1, request()))
			reach(t, d, 1, cmp.Or(test.phase, deploy.Running), test.want, nil)
			reach(t, d, 1, deploy.Stopped, "", func() error { return d.Stop(t.Context(), claim(1), 1, 0) })
			p.end(t, d, 1)
		})
	}
}

// Objects that someone has deleted or edited are repaired by the next Apply, without another pod
// unless the pods are concerned.
func TestDrift(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t), t.Context()
	apply := func() error { return d.Apply(ctx, claim(1), 1, request()) }
	first := reach(t, d, 1, deploy.Running, "", apply)
	name := func() string {
		apps, err := p.AppsV1().Deployments(p.namespace).List(ctx, meta.ListOptions{})
		require.NoError(t, err)
		require.Len(t, apps.Items, 1)
		return apps.Items[0].Name
	}()
	edit := func(text string) []byte { return []byte(text) }
	options := meta.PatchOptions{FieldManager: "someone"}
	for what, change := range map[string]func() error{
		"service": func() error { return p.CoreV1().Services(p.namespace).Delete(ctx, name, meta.DeleteOptions{}) },
		"secret":  func() error { return p.CoreV1().Secrets(p.namespace).Delete(ctx, name, meta.DeleteOptions{}) },
		"policy": func() error {
			return p.NetworkingV1().NetworkPolicies(p.namespace).Delete(ctx, name, meta.DeleteOptions{})
		},
		"opened policy": func() error {
			_, err := p.NetworkingV1().NetworkPolicies(p.namespace).Patch(ctx, name, types.MergePatchType, edit(`{"spec":{"ingress":[{}]}}`), options)
			return err
		},
		"selector": func() error {
			_, err := p.CoreV1().Services(p.namespace).Patch(ctx, name, types.MergePatchType, edit(`{"spec":{"selector":{"app":"other"}}}`), options)
			return err
		},
	} {
		require.NoError(t, change(), what)
		reach(t, d, 1, deploy.Changed, "someone has changed", nil)
		repaired := reach(t, d, 1, deploy.Running, "", apply)
		require.Equal(t, first.StartedAt, repaired.StartedAt, what)
	}
	for what, patch := range map[string]string{
		"scaled": `{"spec":{"replicas":0}}`,
		"image":  `{"spec":{"template":{"spec":{"containers":[{"name":"runtime","image":"other:1"}]}}}}`,
	} {
		_, err := p.AppsV1().Deployments(p.namespace).Patch(ctx, name, types.StrategicMergePatchType, edit(patch), options)
		require.NoError(t, err, what)
		reach(t, d, 1, deploy.Changed, "someone has changed", nil)
		reach(t, d, 1, deploy.Running, "", apply)
	}
	_, err := p.AppsV1().Deployments(p.namespace).Patch(ctx, name, types.MergePatchType, edit(`{"spec":{"template":{"metadata":{"labels":{"team":"x"}}}}}`), options)
	require.NoError(t, err)
	reach(t, d, 1, deploy.Running, "", nil)
	require.NoError(t, p.AppsV1().Deployments(p.namespace).Delete(ctx, name, meta.DeleteOptions{}))
	reach(t, d, 1, deploy.Running, "", apply)
	p.end(t, d, 1)
}

// Someone deletes the Deployment, and its objects remain: their ReplicaSet replaces each pod that
// ends, and nothing removes the others.
func TestDeploymentIsDeletedWithoutItsObjects(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t), t.Context()
	apply := func() error { return d.Apply(ctx, claim(1), 1, request()) }
	orphan := func() {
		t.Helper()
		policy := meta.DeletePropagationOrphan
		apps := p.AppsV1().Deployments(p.namespace)
		list, err := apps.List(ctx, meta.ListOptions{})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		require.NoError(t, apps.Delete(ctx, list.Items[0].Name, meta.DeleteOptions{PropagationPolicy: &policy}))
	}
	ready := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			list, err := p.AppsV1().Deployments(p.namespace).List(ctx, meta.ListOptions{})
			require.NoError(t, err)
			return len(list.Items) == 1 && list.Items[0].Status.ReadyReplicas == 1 && len(p.pods(key, "")) == 1
		}, patience, 50*time.Millisecond)
	}
	first := reach(t, d, 1, deploy.Running, "", apply)
	ready()
	orphan()
	require.Eventually(t, func() bool {
		require.NoError(t, apply())
		o, err := d.Observe(ctx, key)
		return err == nil && o.Runtime(1).Phase == deploy.Running && o.Runtime(1).StartedAt.After(first.StartedAt)
	}, patience, 20*time.Millisecond)
	ready()
	orphan()
	reach(t, d, 1, deploy.Stopped, "", func() error { return d.Stop(ctx, claim(1), 1, 0) })
	reach(t, d, 1, deploy.Running, "", apply)
	ready()
	orphan()
	p.end(t, d, 1)
}

// A hub that was frozen after it had read the claim changes nothing: its writes name versions that
// the next hub has replaced.
func TestFrozenHub(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t), t.Context()
	first := reach(t, d, 1, deploy.Running, "", func() error { return d.Apply(ctx, claim(1), 1, request()) })
	for what, call := range map[string]func(d deploy.Driver) error{
		"stop":    func(d deploy.Driver) error { return d.Stop(ctx, claim(1), 1, 0) },
		"discard": func(d deploy.Driver) error { return d.Discard(ctx, claim(1), 1) },
		"delete":  func(d deploy.Driver) error { return d.Delete(ctx, claim(1)) },
		"keys":    func(d deploy.Driver) error { return d.SetKeys(ctx, claim(1), []agent.Secret{"x"}) },
		"apply":   func(d deploy.Driver) error { return d.Apply(ctx, claim(1), 2, request()) },
	} {
		// The first write after the claim was read waits until the next hub has changed the deployment.
		gate := newGate("")
		frozen := p.open(t, gate.in)
		done := make(chan error, 1)
		go func() { done <- call(frozen) }()
		<-gate.reached
		p.takeOver(t, d)
		close(gate.release)
		require.ErrorIs(t, <-done, deploy.ErrFenced, what)
		require.Equal(t, first.StartedAt, reach(t, d, 1, deploy.Running, "", nil).StartedAt, what)
		require.Len(t, p.pods(key, "1"), 1)
		require.Empty(t, p.pods(key, "2"), what)
		p.giveBack(t)
	}
	p.end(t, d, 100)
}

// A hub that was frozen before it writes the NetworkPolicy does not replace that of the next hub,
// which has other settings.
func TestPolicyOfAFrozenHub(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	next := p.open(t, func(c *kubernetes.Config) { c.Internal = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
	for number, stage := range []string{"its creation", "its rules"} {
		revision := int64(number + 1)
		gate := newGate("/networkpolicies")
		if stage == "its rules" {
			gate.resource += "/"
		}
		frozen := p.open(t, gate.in)
		done := make(chan error, 1)
		go func() { done <- frozen.Apply(ctx, claim(1), revision, request()) }()
		<-gate.reached
		reach(t, next, revision, deploy.Running, "", func() error { return next.Apply(ctx, claim(2), revision, request()) })
		close(gate.release)
		require.ErrorIs(t, <-done, deploy.ErrFenced, stage)
		rules, err := p.NetworkingV1().NetworkPolicies(p.namespace).List(ctx, meta.ListOptions{LabelSelector: "agenthost.dev/revision=" + strconv.FormatInt(revision, 10)})
		require.NoError(t, err)
		require.Len(t, rules.Items, 1)
		text, err := json.Marshal(rules.Items[0].Spec)
		require.NoError(t, err)
		require.Contains(t, string(text), "203.0.113.0/24", stage)
		p.giveBack(t)
	}
	p.end(t, next, 3)
}

// takeOver makes a higher fence the one in force.
func (p place) takeOver(t *testing.T, d deploy.Driver) {
	t.Helper()
	require.NoError(t, d.SetKeys(t.Context(), claim(2), []agent.Secret{apiKey}))
}

// giveBack makes the first fence the one in force again, as no hub can.
func (p place) giveBack(t *testing.T) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"agenthost.dev/fence":"1"}}}`)
	claims, err := p.CoreV1().ConfigMaps(p.namespace).List(t.Context(), meta.ListOptions{LabelSelector: "agenthost.dev/key"})
	require.NoError(t, err)
	for _, o := range claims.Items {
		_, err := p.CoreV1().ConfigMaps(p.namespace).Patch(t.Context(), o.Name, types.MergePatchType, patch, meta.PatchOptions{})
		require.NoError(t, err)
	}
	apps, err := p.AppsV1().Deployments(p.namespace).List(t.Context(), meta.ListOptions{LabelSelector: "agenthost.dev/key"})
	require.NoError(t, err)
	for _, o := range apps.Items {
		_, err := p.AppsV1().Deployments(p.namespace).Patch(t.Context(), o.Name, types.MergePatchType, patch, meta.PatchOptions{})
		require.NoError(t, err)
	}
}

// The API server is away, and then restarted. The runtime continues, and the driver too.
func TestServerIsRestarted(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t, func(c *kubernetes.Config) { c.Timeout = 5 * time.Second }), t.Context()
	first := reach(t, d, 1, deploy.Running, "", func() error { return d.Apply(ctx, claim(1), 1, request()) })
	p.cluster.StopAPIServer(t)
	require.Eventually(t, func() bool {
		_, err := d.Observe(ctx, key)
		return errors.Is(err, deploy.ErrUnavailable)
	}, patience, 50*time.Millisecond)
	require.ErrorIs(t, d.Stop(ctx, claim(1), 1, 0), deploy.ErrUnavailable)
	p.cluster.StartAPIServer(t)
	require.Equal(t, first.StartedAt, reach(t, d, 1, deploy.Running, "", nil).StartedAt)
	resume := p.cluster.Pause(t)
	require.ErrorIs(t, d.Apply(ctx, claim(1), 2, request()), deploy.ErrUnavailable, "it hangs")
	resume()
	reach(t, d, 2, deploy.Running, "", func() error {
		if err := d.Apply(ctx, claim(1), 2, request()); !errors.Is(err, deploy.ErrUnavailable) {
			return err
		}
		return nil
	})
	require.Eventually(t, func() bool { return len(p.pods(key, "1")) == 1 && len(p.pods(key, "2")) == 1 }, patience, 50*time.Millisecond)
	p.end(t, d, 1)
}

// A volume has the files of all revisions, and ends with the deployment.
func TestVolume(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t, func(c *kubernetes.Config) { c.StorageSize = "1Mi" }), t.Context()
	reach(t, d, 1, deploy.Running, "", func() error { return d.Apply(ctx, claim(1), 1, request()) })
	reach(t, d, 2, deploy.Running, "", func() error { return d.Apply(ctx, claim(1), 2, request()) })
	require.Eventually(t, func() bool {
		all := p.pods(key, "")
		return len(all) == 2 && all[0].Status.PodIP != "" && all[1].Status.PodIP != ""
	}, patience, 50*time.Millisecond)
	p.end(t, d, 1)
}

// Two hubs with different databases have one namespace. Neither observes nor changes what the other
// one has.
func TestTwoOwners(t *testing.T) {
	p := newPlace(t)
	one, two, ctx := p.open(t), p.open(t), t.Context()
	one.Own("first")
	two.Own("second")
	theirs := claim(100)
	theirs.Owner = "second"
	first := reach(t, one, 1, deploy.Running, "", func() error { return one.Apply(ctx, claim(1), 1, request()) })
	o, err := two.Observe(ctx, key)
	require.NoError(t, err)
	require.False(t, o.Exists)
	require.ErrorIs(t, two.Apply(ctx, theirs, 1, request()), deploy.ErrForeign)
	require.ErrorIs(t, two.Delete(ctx, theirs), deploy.ErrForeign)
	require.Equal(t, first.StartedAt, reach(t, one, 1, deploy.Running, "", nil).StartedAt)
	p.end(t, one, 1)
	reach(t, two, 1, deploy.Running, "", func() error { return two.Apply(ctx, theirs, 1, request()) })
	o, err = one.Observe(ctx, key)
	require.NoError(t, err)
	require.False(t, o.Exists)
	require.Eventually(t, func() bool {
		require.NoError(t, two.Delete(ctx, theirs))
		o, err := two.Observe(ctx, key)
		return err == nil && !o.Exists
	}, patience, 50*time.Millisecond)
	p.nothingLeft()
}
