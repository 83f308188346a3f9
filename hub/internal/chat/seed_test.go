package chat_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/rbac"
)

// Conversations that are sent to a runtime that does not accept runs share the memory of answers.
func TestConversationsHaveMemory(t *testing.T) {
	t.Parallel()
	const all = 50
	s := open(t, sqlite(t))
	s.deploy(nil)
	var paths []string
	for i := range all {
		user := s.As("acme", fmt.Sprint("user", i), rbac.Member)
		paths = append(paths, session(user))
		say(t, user, paths[i], "hello")
	}
	s.exec(`UPDATE chat_messages SET text = $1, content = '' WHERE role = 'assistant'`, strings.Repeat("word ", 200_000))
	s.exec(`UPDATE chat_sessions SET runtime_session = ''`)
	gate, waiting := make(chan struct{}), make(chan struct{}, all)
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // it does not read the body
		waiting <- struct{}{}
		<-gate
		w.WriteHeader(http.StatusInternalServerError)
	}))
	var ended sync.WaitGroup
	codes := make(chan int, all)
	for i := range all {
		ended.Go(func() {
			res := s.As("acme", fmt.Sprint("user", i), rbac.Member).Post(paths[i]+"/messages", object{"message": "more"})
			codes <- res.Status
			waiting <- struct{}{}
		})
	}
	for range all {
		<-waiting
	}
	close(gate)
	ended.Wait()
	close(codes)
	counted := map[int]int{}
	for code := range codes {
		counted[code]++
	}
	require.InDelta(t, all-40, counted[http.StatusServiceUnavailable], 5, "%v", counted)
	require.Equal(t, all, counted[http.StatusServiceUnavailable]+counted[http.StatusBadGateway], "%v", counted)
	s.deploy(nil)
	require.Equal(t, "completed", last(say(t, s.As("acme", "user0", rbac.Member), paths[0], "again")), "the memory is released")
}
