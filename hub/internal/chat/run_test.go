package chat_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
)

const runs = "/api/v1/admin/runs"

// The answers of two hubs on one database are listed and cancelled by either of them.
func TestRunsAreListedAndCancelled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := open(t, url), open(t, url)
		a.deploy(endless(t))
		b.endpoint.Store(a.endpoint.Load())
		maxOf := func(s *server) []object { return s.As("acme", "max", rbac.Maintainer).Get(runs).Items() }
		require.Empty(t, maxOf(a))
		for i, relay := range []*server{a, b} {
			ada, boss := relay.ada(), a.As("acme", "max", rbac.Maintainer)
			path := session(ada)
			answer := send(t, ada, path, object{"message": "hello"})
			answer.until("partial_message")
			for _, s := range []*server{a, b} {
				all := maxOf(s)
				require.Len(t, all, 1)
				require.Equal(t, path, sessions+"/"+all[0]["sessionId"].(string))
				require.Equal(t, []any{"running", "helper", "id-ada", "ada"}, []any{all[0]["state"], all[0]["agentName"], all[0]["userId"], all[0]["userName"]})
				require.NotEmpty(t, all[0]["startedAt"])
			}
			id := maxOf(a)[0]["runId"].(string)
			cancel := runs + "/" + id + "/cancel"
			require.Empty(t, a.As("zeta", "zoe", rbac.Admin).Get(runs).Items())
			a.As("zeta", "zoe", rbac.Admin).Post(cancel, nil).Error(http.StatusNotFound, wire.NotFound)
			ada.Get(runs).Error(http.StatusForbidden, wire.Forbidden)
			ada.Post(cancel, nil).Error(http.StatusForbidden, wire.Forbidden)
			require.Equal(t, object{"runId": id, "state": "cancelling"}, boss.Post(cancel, nil).Want(http.StatusAccepted))
			require.Equal(t, "client_request", answer.until("cancelled").data["reason"])
			require.Equal(t, []string{"hub", "done"}, names(answer.rest()))
			require.Equal(t, "cancelled", messages(ada, path)[1]["status"])
			require.Empty(t, maxOf(a))
			boss.Post(cancel, nil).Error(http.StatusNotFound, wire.NotFound)
			require.Equal(t, fmt.Sprintf(`agent.cancel_run helper {"owner":"ada","runId":%q}`, id), a.Audit("acme")[i])
		}
	}, series...)
}

// A run whose hub was killed ends without one.
func TestARunThatNoHubRelaysIsCancelled(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada, boss := s.ada(), s.As("acme", "max", rbac.Maintainer)
		path := session(ada)
		s.orphan(path, "killed")
		res := boss.Post(runs+"/"+path[len(sessions)+1:]+"/cancel", nil)
		if res.Status != http.StatusNotFound { // the sweep was first
			res.Want(http.StatusAccepted)
			require.Equal(t, "cancelled", eventually(t, ada, path)["status"])
		}
		require.Empty(t, boss.Get(runs).Items())
		say(t, ada, path, "more")
	})
}

// A run that is being cancelled is listed as such until its hub has ended it.
func TestARunThatIsBeingCancelled(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		path := session(s.ada())
		s.joins("another hub")
		s.orphan(path, "another hub")
		boss := s.As("acme", "max", rbac.Maintainer)
		require.Equal(t, "running", boss.Get(runs).Items()[0]["state"])
		s.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted)
		require.Equal(t, "cancelling", boss.Get(runs).Items()[0]["state"])
	})
}

// The number of answers of an agent is a part of the statements of other packages.
func TestAnswersOfAnAgent(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		s.joins("another hub")
		for range 4 {
			s.orphan(session(s.ada()), "another hub")
		}
		for _, row := range []struct {
			tenant, agent string
			want          int
		}{{"acme", "helper", 4}, {"acme", "idle", 0}, {"zeta", "helper", 0}} {
			count, args := relay.AnswersOf(row.tenant, row.agent, 2)
			got, err := db.Value[int](t.Context(), s.db.Read(), "count", `SELECT $1 + `+count, append([]any{100}, args...)...)
			require.NoError(t, err)
			require.Equal(t, 100+row.want, got)
		}
	})
}
