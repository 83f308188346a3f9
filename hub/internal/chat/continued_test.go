package chat_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// The parts of an answer that waits have one label, and one notice when they are stored.
func TestLabelsOfAContinuedAnswer(t *testing.T) {
	t.Parallel()
	const notice = "AI 生成"
	for mode, want := range map[aigc.Mode]string{
		aigc.ModeHint: "I write.\n\nDone.", aigc.ModeAppend: "I write.\n\nDone.\n\n" + notice, aigc.ModePrepend: notice + "\n\nI write.\n\nDone.",
	} {
		t.Run(string(mode), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, url string) {
				s := open(t, url, func(cfg *config) { cfg.Labels = labels{mode, notice} })
				s.deploy(asking(t))
				ada := s.ada()
				path := session(ada)
				first := send(t, ada, path, object{"message": "go", "inputs": []string{"approval"}}).rest()
				pending := first[len(first)-2].data["pending"].([]any)
				waiting := messages(ada, path)[1]
				require.Equal(t, 1, strings.Count(waiting["text"].(string)+first[0].raw, notice), "also while it waits")
				second := send(t, ada, path, answers(pending, object{"decision": "approve"})).rest()
				after := messages(ada, path)[1]
				require.Equal(t, want, after["text"])
				for _, labelled := range []object{first[0].data, first[len(first)-2].data, waiting, second[0].data, second[len(second)-2].data} {
					require.Equal(t, after["aigc"], labelled["aigc"])
				}
				require.NotEmpty(t, after["aigc"])
			}, series...)
		})
	}
}

// Both runs of a continued answer have their price.
func TestPricesOfAContinuedAnswer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, func(c *config) { c.prices = map[string]usage.Price{"m": {Input: 1000, Output: 2000}} })
		s.deploy(asking(t))
		ada, root := s.ada(), s.As("acme", "root", rbac.Admin)
		path := session(ada)
		cost := func() float64 {
			return root.Get("/api/v1/admin/usage").Want(http.StatusOK)["totals"].(object)["cost"].(float64)
		}
		pending := ask(t, ada, path)
		one := cost()
		require.Positive(t, one)
		require.Equal(t, "completed", last(send(t, ada, path, answers(pending, object{"decision": "approve"})).rest()))
		require.InDelta(t, 2*one, cost(), 1e-9)
		require.Equal(t, usageOf(20, 10), messages(ada, path)[1]["usage"])
	}, series...)
}

// What waits in one chat has no answer in another one, and its answer has no events and no cancel
// there.
func TestWhatWaitsInAnotherChat(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		var paths, ids []string
		for range 2 {
			s.deploy(asking(t))
			path := session(ada)
			ids = append(ids, idOf(ask(t, ada, path)))
			paths = append(paths, path)
		}
		other := []any{object{"id": ids[0]}}
		ada.Post(paths[1]+"/messages", answers(other, object{"decision": "approve"})).Error(http.StatusConflict, wire.Conflict)
		both := object{"answers": []object{{"id": ids[0], "decision": "approve"}, {"id": ids[1], "decision": "approve"}}}
		for _, path := range paths {
			ada.Post(path+"/messages", both).Error(http.StatusConflict, wire.Conflict)
		}
		message := messages(ada, paths[0])[1]["id"].(string)
		for _, at := range []string{paths[1], strings.Replace(paths[1], sessions, admin, 1)} {
			ada.Get(at+"/messages/"+message+"/events").Error(http.StatusNotFound, wire.NotFound)
		}
		ada.Post(paths[1]+"/messages/"+message+"/cancel", nil).Error(http.StatusNotFound, wire.NotFound)
		s.As("acme", "max", rbac.Maintainer).Post(strings.Replace(paths[1], sessions, admin, 1)+"/messages/"+message+"/cancel", nil).Error(http.StatusNotFound, wire.NotFound)
		require.Len(t, ada.Get(approvals).Items(), 2)
		require.NotContains(t, strings.Join(s.Audit("acme"), "\n"), "_call")
	})
}

// Another hub has ended the run that continues an answer, and the run completes: it no longer
// waits, and has the tokens of both runs.
func TestALateEndOfAContinuedAnswer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, func(c *config) { c.Relay.SaveEvery = time.Hour })
		gate := make(chan struct{})
		up := modeltest.Start(t, modeltest.Anthropic, writes("a.txt"), modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Done.")))
		s.deploy(up)
		ada := s.ada()
		path := session(ada)
		pending := ask(t, ada, path)
		ada.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Want(http.StatusAccepted)
		up.Await(t, 2)
		s.exec(`DELETE FROM chat_runs`)
		s.exec(`UPDATE chat_sessions SET size = size + (SELECT octet_length(text) + octet_length(content) FROM chat_messages WHERE status = 'partial')`)
		close(gate)
		after := awaits(t, ada, path, "completed")
		require.NotContains(t, after, "pending")
		require.Equal(t, usageOf(20, 10), after["usage"])
		require.Len(t, blocks(after, "answered"), 1)
		s.sizes(s.stored()...)
	}, series...)
}

// An answer whose hub was killed while a run continued it has the tokens of the run before too.
func TestTheTokensOfAContinuedAnswerWhoseHubWasKilled(t *testing.T) {
	each(t, asking, func(t *testing.T, s *server) {
		s.limit(usage.OfAgent, "helper", wire.BudgetRequest{Hard: new(10_000.0), Reserve: new(1000.0)})
		ada := s.ada()
		path := session(ada)
		ask(t, ada, path)
		before := messages(ada, path)[1]["usage"].(object)
		id := path[strings.LastIndexByte(path, '/')+1:]
		s.exec(`UPDATE chat_messages SET status = 'partial', run_id = 'lost' WHERE role = 'assistant'`)
		s.exec(`INSERT INTO chat_runs (run_id, tenant_id, session_key, agent_name, hub_id) SELECT 'lost', 'acme', key, 'helper', 'killed' FROM chat_sessions WHERE id = $1`, id)
		ada.Post(path+"/cancel", nil).Want(http.StatusAccepted)
		after := awaits(t, ada, path, "cancelled")["usage"].(object)
		require.Equal(t, true, after["estimated"])
		require.EqualValues(t, 1000, after["input_tokens"].(float64)-before["input_tokens"].(float64))
	})
}

// The owner of a chat may not use the agent any more: what waits in it cannot be approved, and an
// answer that another user continues ends.
func TestTheOwnerOfAChatLosesItsAccess(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		var gone atomic.Bool
		s := open(t, url, func(c *config) {
			c.Owner = func(_ context.Context, _ db.Querier, tenantID, userID string) (api.Caller, error) {
				if gone.Load() {
					return api.Caller{}, wire.NotFound
				}
				return api.Caller{TenantID: tenantID, UserID: userID, RoleNow: rbac.Member}, nil
			}
		})
		role := "maintainer"
		s.approvers.Store(&role)
		s.deploy(modeltest.Start(t, modeltest.Anthropic, writes("a.txt"), modeltest.Stream(modeltest.Text("Half"), modeltest.Hang())))
		ada, max := s.ada(), s.As("acme", "max", rbac.Maintainer)
		path := session(ada)
		pending := ask(t, ada, path)
		gone.Store(true)
		max.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Error(http.StatusConflict, wire.Conflict)
		require.Equal(t, "waiting", messages(ada, path)[1]["status"])
		gone.Store(false)
		max.Post(approvals+"/"+idOf(pending), object{"decision": "approve"}).Want(http.StatusAccepted)
		reader := follows(t, ada, path+"/messages/"+messages(ada, path)[1]["id"].(string), "")
		reader.until("partial_message") // it may be too short to be stored
		gone.Store(true)
		after := awaits(t, ada, path, "cancelled")
		require.Equal(t, "max", blocks(after, "answered")[0]["user_name"])
	}, series...)
}
