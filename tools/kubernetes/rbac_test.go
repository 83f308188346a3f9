package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	authentication "k8s.io/api/authentication/v1"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

// right is one verb for one resource.
type right struct{ group, resource, verb string }

func (r right) String() string { return fmt.Sprintf("%s %s/%s", r.verb, r.group, r.resource) }

// rights returns those of a Role.
func rights(role *rbac.Role) (all []right) {
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, right{group, resource, verb})
				}
			}
		}
	}
	return all
}

// roleOf returns a Role with some rights.
func roleOf(namespace string, all []right) *rbac.Role {
	role := &rbac.Role{ObjectMeta: v1.ObjectMeta{Name: "hub", Namespace: namespace}}
	for _, r := range all {
		role.Rules = append(role.Rules, rbac.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{r.verb}})
	}
	return role
}

// TestRightsAreEnoughAndMinimal runs deployments with the rights of rbac.yaml, and with one of them
// less in turn: then the API server denies a request for it.
func TestRightsAreEnoughAndMinimal(t *testing.T) {
	c := clustertest.Start(t)
	role := readRole(t, c)
	all := rights(role)
	require.Greater(t, len(all), 20)
	t.Run("enough", func(t *testing.T) {
		t.Parallel()
		denied, err := useRights(t, c, all, nil)
		require.Empty(t, denied)
		require.NoError(t, err)
	})
	for i, missing := range all {
		if missing == (right{"", "events", "list"}) {
			continue // an API server without the feature WatchList, such as 1.30, lists before a watch
		}
		t.Run(fmt.Sprint("without ", missing), func(t *testing.T) {
			t.Parallel()
			denied, _ := useRights(t, c, slices.Delete(slices.Clone(all), i, i+1), &missing)
			if missing.verb == "create" && !slices.Contains(denied, missing) {
				missing.verb = "patch" // that of a request that applies an object, which needs both rights
			}
			require.Contains(t, denied, missing, "nothing needs this right")
		})
	}
}

// readRole returns the Role of the manifest, as the API server has it.
func readRole(t *testing.T, c *clustertest.Cluster) *rbac.Role {
	t.Helper()
	client, err := clientset.NewForConfig(c.Config())
	require.NoError(t, err)
	a := newApplier(t, c)
	require.NoError(t, a.apply(t.Context(), manifests+"/namespaces.yaml", nil))
	require.NoError(t, a.apply(t.Context(), manifests+"/rbac.yaml", nil))
	role, err := client.RbacV1().Roles("agenthost-agents").Get(t.Context(), "hub", v1.GetOptions{})
	require.NoError(t, err)
	return role
}

// useRights runs deployments as an account with some rights. It returns the rights that were
// missing, and the first error. It ends early when the wanted one is missed.
func useRights(t *testing.T, c *clustertest.Cluster, granted []right, wanted *right) (denied []right, err error) {
	t.Helper()
	config, namespace := account(t, c, granted)
	path, err := runtimeBinary()
	require.NoError(t, err)
	c.Node(t, clustertest.NodeOptions{Namespace: namespace, Images: map[string]string{runtimeImage: path}})
	defineRoutes(t, c)
	d, err := kubernetes.New(kubernetes.Config{
		REST: config, Namespace: namespace, Image: runtimeImage, Grace: time.Second, Default: agent.Deployment{CPU: "100m", Memory: "256Mi"}, StorageSize: "1Mi",
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()

	g, err := d.Gateway(parent[0], parent[1], parent[2])
	require.NoError(t, err)
	client, err := clientset.NewForConfig(c.Config())
	require.NoError(t, err)
	orphan := func(ctx context.Context) error {
		list, err := client.CoreV1().Secrets(namespace).List(ctx, v1.ListOptions{LabelSelector: "agenthost.dev/revision=1"})
		if err != nil || len(list.Items) != 1 {
			return fmt.Errorf("find the Secret: %d, %w", len(list.Items), err)
		}
		list.Items[0].OwnerReferences = nil
		_, err = client.CoreV1().Secrets(namespace).Update(ctx, &list.Items[0], v1.UpdateOptions{})
		return err
	}
	user := "system:serviceaccount:" + namespace + ":hub"
	refused := func() (all []right) {
		for _, call := range c.Calls(t, user) {
			if call.Status == 403 {
				all = append(all, right{call.Group, call.Resource, call.Verb})
			}
		}
		return all
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, context.DeadlineExceeded)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- deployments(ctx, d, g, orphan) }()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if wanted != nil && err != nil { // the API server may write its log later
				require.Eventually(t, func() bool { return len(refused()) > 0 }, 30*time.Second, 100*time.Millisecond, err)
			}
			return refused(), err
		case <-ticker.C:
			if all := refused(); wanted != nil && len(all) > 0 {
				cancel()
				<-done
				return refused(), nil
			}
		}
	}
}

// account returns a client with some rights in a new namespace.
func account(t *testing.T, c *clustertest.Cluster, granted []right) (*rest.Config, string) {
	t.Helper()
	ctx := t.Context()
	client, err := clientset.NewForConfig(c.Config())
	require.NoError(t, err)
	namespace := c.Namespace(t)
	_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &core.ServiceAccount{ObjectMeta: v1.ObjectMeta{Name: "hub"}}, v1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().Roles(namespace).Create(ctx, roleOf(namespace, granted), v1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().RoleBindings(namespace).Create(ctx, &rbac.RoleBinding{
		ObjectMeta: v1.ObjectMeta{Name: "hub"}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: "hub"},
		Subjects: []rbac.Subject{{Kind: "ServiceAccount", Name: "hub", Namespace: namespace}},
	}, v1.CreateOptions{})
	require.NoError(t, err)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "hub", &authentication.TokenRequest{}, v1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerToken = token.Status.Token
	return config, namespace
}

// deployments uses all of a driver: two revisions of a deployment from their start to their end.
// The function orphan changes the Secret of revision 1 by hand: it no longer belongs to the
// Deployment.
func deployments(ctx context.Context, d deploy.Driver, g deploy.Gateway, orphan func(context.Context) error) error {
	owner := deploy.Ref{Key: "default-helper", UID: "first", Owner: "first"}
	req := deploy.Request{
		Key: owner.Key, AgentID: "helper", Config: agent.Agent{Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}},
		Env: map[string]agent.Secret{deploy.EnvAPIKey: "the-key"},
	}
	phase := func(number int64, phases ...deploy.Phase) func() (bool, error) {
		return func() (bool, error) {
			o, err := d.Observe(ctx, owner)
			return slices.Contains(phases, o.Runtime(number).Phase), err
		}
	}
	logged := func() (bool, error) {
		lines, err := d.Logs(ctx, owner, 1, 10)
		return len(lines) > 0, err
	}
	gone := func() (bool, error) { // with its volume
		o, err := d.Observe(ctx, owner)
		return !o.Exists, err
	}
	steps := []struct {
		call  func() error
		until func() (bool, error)
	}{
		{func() error { return d.Apply(ctx, owner, 1, req) }, phase(1, deploy.Running)},
		{func() error { return d.SetKeys(ctx, owner, []agent.Secret{"the-key", "other"}) }, logged},
		{func() error { return d.Apply(ctx, owner, 2, req) }, phase(2, deploy.Running)},
		{func() error { return putRoute(ctx, d, g, owner) }, func() (bool, error) { return true, nil }},
		{func() error { return g.Remove(ctx, owner.Owner, owner.Key) }, func() (bool, error) { return true, nil }},
		{func() error { return startRun(ctx, d, owner) }, func() (bool, error) { return true, nil }},
		{func() error { return d.Stop(ctx, owner, 1, time.Hour) }, phase(1, deploy.Stopping, deploy.Stopped)},
		{func() error { return d.Stop(ctx, owner, 1, 0) }, phase(1, deploy.Stopped)},
		{func() error { return orphan(ctx) }, func() (bool, error) { return true, nil }},
		{func() error { return d.Apply(ctx, owner, 1, req) }, phase(1, deploy.Running)},
		{func() error { return d.Discard(ctx, owner, 1) }, phase(1, "")},
		{func() error { _, err := d.List(ctx, owner.Owner); return err }, phase(2, deploy.Running)},
		{func() error { return d.Delete(ctx, owner) }, gone},
	}
	var last error
	for i, step := range steps {
		for {
			if err := step.call(); ctx.Err() == nil {
				last = err
			}
			if done, err := step.until(); last == nil && err == nil && done {
				break
			} else if err != nil && ctx.Err() == nil {
				last = err
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("step %d: %w: %w", i, ctx.Err(), last)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// putRoute puts the route of revision 2.
func putRoute(ctx context.Context, d deploy.Driver, g deploy.Gateway, owner deploy.Ref) error {
	o, err := d.Observe(ctx, owner)
	if err != nil {
		return err
	}
	r := deploy.Route{Key: owner.Key, Host: "agents.example.com", Path: "/helper", Target: o.Runtime(2).URL, Timeout: time.Minute}
	return g.Put(ctx, owner.Owner, r)
}

// startRun starts a run of revision 1 that lasts longer than the patience of the second Stop.
func startRun(ctx context.Context, d deploy.Driver, ref deploy.Ref) error {
	o, err := d.Observe(ctx, ref)
	if err != nil {
		return err
	}
	message := strings.Repeat("word ", 200) // three seconds
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Runtime(1).URL+"/v1/agents/helper/runs",
		strings.NewReader(`{"message": "`+message+`"}`))
	if err != nil {
		return err
	}
	request.Header.Set("X-Api-Key", "the-key")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("start run: %s", response.Status), response.Body.Close())
	}
	go func() { // until the run is cut
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}()
	return nil
}
