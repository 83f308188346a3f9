package clustertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// labelNamespace is the label of nodes whose pods are those of a namespace.
const labelNamespace = "agenthost.test/namespace"

// Namespace creates a namespace that enforces the restricted pod security standard, and removes it
// when the test ends. Its pods run on nodes of the namespace only.
func (c *Cluster) Namespace(tb testing.TB) string {
	tb.Helper()
	name := "test-" + strings.ToLower(rand.Text()[:10])
	c.PrepareNamespace(tb, &core.Namespace{ObjectMeta: meta.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}})
	return name
}

// PrepareNamespace creates a namespace as Namespace does.
func (c *Cluster) PrepareNamespace(tb testing.TB, namespace *core.Namespace) {
	tb.Helper()
	name := namespace.Name
	if namespace.Annotations == nil {
		namespace.Annotations = map[string]string{}
	}

	namespace.Annotations["scheduler.alpha.kubernetes.io/node-selector"] = labelNamespace + "=" + name
	_, err := c.client.CoreV1().Namespaces().Create(tb.Context(), namespace, meta.CreateOptions{})
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, c.client.CoreV1().Namespaces().Delete(context.Background(), name, meta.DeleteOptions{}))
	})
	require.NoError(tb, wait(func(ctx context.Context) error { return c.accountExists(ctx, name) }))
}

// accountExists reports whether pods can be created in a namespace.
func (c *Cluster) accountExists(ctx context.Context, namespace string) error {
	if _, err := c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", meta.GetOptions{}); err != nil {
		return fmt.Errorf("get service account: %w", err)
	}

	if _, err := c.client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", meta.GetOptions{}); err != nil {
		return fmt.Errorf("get certificate: %w", err)
	}

	return nil
}
