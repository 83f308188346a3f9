package kubernetes_test

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

// brokenImage is an image whose program fails.
const brokenImage = "broken:1"

// end deletes the deployment.
func (p place) end(t *testing.T, d deploy.Driver) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.NoError(t, d.Delete(t.Context(), ref))
		o, err := d.Observe(t.Context(), ref)
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
			require.NoError(t, d.Apply(t.Context(), ref, 1, request()))
			reach(t, d, 1, cmp.Or(test.phase, deploy.Running), test.want, nil)
			reach(t, d, 1, deploy.Stopped, "", func() error { return d.Stop(t.Context(), ref, 1, 0) })
			p.end(t, d)
		})
	}
}

// Objects that someone has deleted or edited are repaired by the next Apply, without another pod
// unless the pods are concerned.
func TestDrift(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t), t.Context()
	apply := func() error { return d.Apply(ctx, ref, 1, request()) }
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
	p.end(t, d)
}

// Someone deletes the Deployment, and its objects remain: their ReplicaSet replaces each pod that
// ends, and nothing removes the others.
func TestDeploymentIsDeletedWithoutItsObjects(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t), t.Context()
	apply := func() error { return d.Apply(ctx, ref, 1, request()) }
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
		o, err := d.Observe(ctx, ref)
		return err == nil && o.Runtime(1).Phase == deploy.Running && o.Runtime(1).StartedAt.After(first.StartedAt)
	}, patience, 20*time.Millisecond)
	ready()
	orphan()
	reach(t, d, 1, deploy.Stopped, "", func() error { return d.Stop(ctx, ref, 1, 0) })
	reach(t, d, 1, deploy.Running, "", apply)
	ready()
	orphan()
	p.end(t, d)
}

// A hub is frozen at a write of an apply. In the meantime, another hub deletes the deployment. What
// the late write creates is listed and deleted again, or ends with the Deployment that is gone.
func TestFrozenHubAfterADelete(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t), t.Context()
	for _, resource := range []string{"/deployments", "/secrets", "/networkpolicies", "/services", "/deployments/"} {
		gate := newGate(resource)
		frozen := p.open(t, gate.in, func(c *kubernetes.Config) { c.Timeout = 10 * time.Minute })
		done := make(chan error, 1)
		go func() { done <- frozen.Apply(ctx, ref, 1, request()) }()
		<-gate.reached
		p.end(t, d)
		close(gate.release)
		<-done // it may have created all again
		require.Eventually(t, func() bool {
			all, err := d.List(ctx, ref.Owner)
			require.NoError(t, err)
			for _, one := range all {
				require.NoError(t, d.Delete(ctx, one))
			}
			return len(all) == 0
		}, patience, 50*time.Millisecond, resource)
		p.nothingLeft()
	}
}

// The API server is away, and then restarted. The runtime continues, and the driver too.
func TestServerIsRestarted(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t, func(c *kubernetes.Config) { c.Timeout = 5 * time.Second }), t.Context()
	first := reach(t, d, 1, deploy.Running, "", func() error { return d.Apply(ctx, ref, 1, request()) })
	p.cluster.StopAPIServer(t)
	require.Eventually(t, func() bool {
		_, err := d.Observe(ctx, ref)
		return errors.Is(err, deploy.ErrUnavailable)
	}, patience, 50*time.Millisecond)
	require.ErrorIs(t, d.Stop(ctx, ref, 1, 0), deploy.ErrUnavailable)
	p.cluster.StartAPIServer(t)
	require.Equal(t, first.StartedAt, reach(t, d, 1, deploy.Running, "", nil).StartedAt)
	resume := p.cluster.Pause(t)
	require.ErrorIs(t, d.Apply(ctx, ref, 2, request()), deploy.ErrUnavailable, "it hangs")
	resume()
	reach(t, d, 2, deploy.Running, "", func() error {
		if err := d.Apply(ctx, ref, 2, request()); !errors.Is(err, deploy.ErrUnavailable) {
			return err
		}
		return nil
	})
	require.Eventually(t, func() bool { return len(p.pods(key, "1")) == 1 && len(p.pods(key, "2")) == 1 }, patience, 50*time.Millisecond)
	p.end(t, d)
}

// A volume has the files of all revisions, and ends with the deployment.
func TestVolume(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t, func(c *kubernetes.Config) { c.StorageSize = "1Mi" }), t.Context()
	reach(t, d, 1, deploy.Running, "", func() error { return d.Apply(ctx, ref, 1, request()) })
	reach(t, d, 2, deploy.Running, "", func() error { return d.Apply(ctx, ref, 2, request()) })
	require.Eventually(t, func() bool {
		all := p.pods(key, "")
		return len(all) == 2 && all[0].Status.PodIP != "" && all[1].Status.PodIP != ""
	}, patience, 50*time.Millisecond)
	p.end(t, d)
}

// Two hubs with different databases have one namespace. Neither observes nor changes what the other
// one has.
func TestTwoOwners(t *testing.T) {
	p := newPlace(t)
	one, two, ctx := p.open(t), p.open(t), t.Context()
	one.Own("first")
	two.Own("second")
	theirs := deploy.Ref{Key: key, UID: "theirs", Owner: "second"}
	first := reach(t, one, 1, deploy.Running, "", func() error { return one.Apply(ctx, ref, 1, request()) })
	phase := func() deploy.Phase {
		o, err := two.Observe(ctx, theirs)
		require.NoError(t, err)
		return o.Runtime(1).Phase
	}
	require.Empty(t, phase())
	require.Eventually(t, func() bool {
		require.NoError(t, two.Apply(ctx, theirs, 1, request()))
		return phase() == deploy.Running
	}, patience, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		require.NoError(t, two.Delete(ctx, theirs))
		o, err := two.Observe(ctx, theirs)
		return err == nil && !o.Exists
	}, patience, 50*time.Millisecond)
	require.Equal(t, first.StartedAt, reach(t, one, 1, deploy.Running, "", nil).StartedAt)
	p.end(t, one)
}
