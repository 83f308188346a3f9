package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// outage is the time for which the database is away, longer than all leases and than the time of a
// request.
const outage = 70 * time.Second

// While the database is away for more than a minute, and the hub and the runtimes live, the answers
// in progress end. When it is back, each has its text and its tokens: none is partial.
func TestLongOutageOfTheDatabase(t *testing.T) {
	in := newInstallation(t, 1, true)
	c := in.setUp(t)
	k := &checker{in: in, c: c}
	ctx, stop := context.WithCancel(t.Context())
	running := load(ctx, c)
	<-time.After(5 * time.Second)
	in.postgres.killFor(outage)
	<-time.After(outage)
	require.NoError(t, eventually(t.Context(), patience, func(ctx context.Context) error {
		_, err := in.probe(ctx, c)
		return err
	}), in.logs())
	stop()
	running.Wait()
	k.checkBill(t.Context())
	fmt.Println(in.compared)
	unsaved := 0
	for _, chat := range c.chats {
		var list struct{ Items []message }
		require.True(t, k.get(t.Context(), "/api/v1/admin/chat/sessions/"+chat.id+"/messages?page_size=100", &list))
		require.False(t, slices.ContainsFunc(list.Items, func(m message) bool { return m.Status == "partial" }), "%s: %+v", chat.name, list.Items)
		for i, q := range chat.questions {
			if q.stored && q.status == "" && 2*i+1 < len(list.Items) {
				unsaved++
			}
		}
	}
	fmt.Println("answers that ended during the outage:", unsaved)
	require.Positive(t, unsaved)
	findings := k.check(t.Context())
	report(c.journal, nil)
	require.Empty(t, findings, in.logs())
	in.remove(t, k)
}
