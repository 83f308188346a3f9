package kubernetes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
)

// claims returns the names of the records of claims.
func (p place) claims() (names []string) {
	p.t.Helper()
	list, err := p.CoreV1().ConfigMaps(p.namespace).List(p.t.Context(), meta.ListOptions{LabelSelector: "agenthost.dev/key"})
	require.NoError(p.t, err)
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	return names
}

// quick removes the records of deployments after a few seconds.
func quick(c *kubernetes.Config) { c.Timeout = 300 * time.Millisecond }

// of returns a claim and a request for another key.
func of(name string, fence int64) (deploy.Claim, deploy.Request) {
	c, r := claim(fence), request()
	c.Key, r.Key = name, name
	return c, r
}

// Hubs are frozen at writes of an apply. In the meantime, another hub deletes the deployments, and
// the records of their claims are removed. The frozen hubs are fenced nevertheless, and nothing of
// them remains. A deployment that exists retains its record, and one with a lower fence continues.
func TestFrozenHubsAfterTheirRecordsWereRemoved(t *testing.T) {
	p := newPlace(t)
	d, ctx := p.open(t), t.Context()
	first := reach(t, d, 1, deploy.Running, "", func() error { return d.Apply(ctx, claim(1), 1, request()) })
	kept := p.claims()
	require.Len(t, kept, 1)

	type hub struct {
		key  string
		gate *gate
		done chan error
	}
	var frozen []hub
	for _, resource := range []string{"/configmaps", "/deployments", "/secrets", "/networkpolicies", "/networkpolicies/", "/secrets/", "/deployments/"} {
		h := hub{"default-frozen" + strings.NewReplacer("/", "-").Replace(resource) + "x", newGate(resource), make(chan error, 1)}
		driver := p.open(t, h.gate.in, func(c *kubernetes.Config) { c.Timeout = 10 * time.Minute })
		c, r := of(h.key, 2)
		go func() { h.done <- driver.Apply(ctx, c, 1, r) }()
		<-h.gate.reached
		frozen = append(frozen, h)
	}
	for _, h := range frozen {
		c, _ := of(h.key, 3)
		require.Eventually(t, func() bool {
			require.NoError(t, d.Delete(ctx, c))
			o, err := d.Observe(ctx, h.key)
			require.NoError(t, err)
			return !o.Exists
		}, patience, 20*time.Millisecond, h.key)
	}
	sweeper := p.open(t, quick)
	swept := func() bool {
		_, _ = sweeper.List(ctx, claim(1).Owner) // it may take longer than the timeout
		return len(p.claims()) == 1
	}
	require.Eventually(t, swept, 2*patience, 100*time.Millisecond)
	require.Equal(t, kept, p.claims())

	for _, h := range frozen {
		close(h.gate.release)
		require.ErrorIs(t, <-h.done, deploy.ErrFenced, h.key)
	}
	require.Eventually(t, func() bool {
		apps, err := p.AppsV1().Deployments(p.namespace).List(ctx, meta.ListOptions{})
		require.NoError(t, err)
		return swept() && len(apps.Items) == 1
	}, 2*patience, 100*time.Millisecond)

	c, r := of(frozen[0].key, 3)
	require.ErrorIs(t, d.Apply(ctx, c, 1, r), deploy.ErrFenced)
	c.Fence = 4
	require.NoError(t, d.Apply(ctx, c, 1, r))
	require.Eventually(t, func() bool {
		require.NoError(t, d.Delete(ctx, c))
		o, err := d.Observe(ctx, c.Key)
		return err == nil && !o.Exists
	}, patience, 20*time.Millisecond)

	require.NoError(t, p.CoreV1().ConfigMaps(p.namespace).Delete(ctx, kept[0], meta.DeleteOptions{}), "by hand")
	require.NoError(t, d.Apply(ctx, claim(1), 1, request()))
	require.Equal(t, first.StartedAt, reach(t, d, 1, deploy.Running, "", nil).StartedAt)
	p.end(t, d, 1)
}

// The record of a database is replaced by that of another one. A frozen hub of the first is fenced.
func TestFenceOfAFormerOwner(t *testing.T) {
	p := newPlace(t)
	one, two, ctx := p.open(t), p.open(t), t.Context()
	theirs := claim(1)
	theirs.Owner = "second"
	reach(t, one, 1, deploy.Running, "", func() error { return one.Apply(ctx, claim(5), 1, request()) })
	p.end(t, one, 5)
	require.NoError(t, two.Apply(ctx, theirs, 1, request()))
	require.Eventually(t, func() bool {
		require.NoError(t, two.Delete(ctx, theirs))
		o, err := two.Observe(ctx, key)
		return err == nil && !o.Exists
	}, patience, 50*time.Millisecond)
	require.ErrorIs(t, one.Apply(ctx, claim(4), 1, request()), deploy.ErrFenced)
	require.NoError(t, one.Apply(ctx, claim(6), 1, request()))
	p.end(t, one, 6)
}
