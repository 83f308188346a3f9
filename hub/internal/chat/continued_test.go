package chat_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
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
