package clustertest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Call is a request that the API server has completed.
type Call struct {
	Verb      string
	Group     string
	Resource  string // "pods/log" with a subresource
	Namespace string
	Status    int
}

// Calls returns the requests of a user, in their order.
func (c *Cluster) Calls(tb testing.TB, user string) (calls []Call) {
	tb.Helper()
	text, err := os.ReadFile(auditLog)
	require.NoError(tb, err)
	for line := range bytes.Lines(text) {
		var event struct {
			Stage, Verb string
			User        struct{ Username string }
			ObjectRef   struct{ APIGroup, Resource, Subresource, Namespace string }
			Status      struct{ Code int } `json:"responseStatus"`
		}
		if json.Unmarshal(line, &event) != nil || event.User.Username != user || event.ObjectRef.Resource == "" {
			continue // the last line may be incomplete
		}

		call := Call{
			Verb: event.Verb, Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource,
			Namespace: event.ObjectRef.Namespace, Status: event.Status.Code,
		}
		if event.ObjectRef.Subresource != "" {
			call.Resource += "/" + event.ObjectRef.Subresource
		}

		calls = append(calls, call)
	}

	return calls
}
