package chat_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// stuck reads the headers of a stream, and nothing else.
func stuck(t *testing.T, c *apitest.Client, answer string) {
	t.Helper()
	req := c.Request(http.MethodGet, answer+"/events", nil)
	conn, err := net.Dial("tcp", req.URL.Host)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	require.NoError(t, req.Write(conn))
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "200")
	t.Cleanup(func() { conn.Close() })
}

// Readers of one user that do not read take no memory from answers.
func TestStuckReadersLeaveMemoryForAnswers(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	big := strings.Repeat("x", 100_000)
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		for range 41 {
			write(fmt.Sprintf(partial, big))
		}
		write(success)
	}))
	path := session(s.ada())
	events := send(t, s.ada(), path, object{"message": "hello"})
	answer := answerOf(path, events.until("hub"))
	require.Equal(t, "completed", last(events.rest()))
	bob := s.As("acme", "bob", rbac.Member)
	require.Equal(t, "completed", last(say(t, bob, session(bob), "hello")), "before")
	for range 8 {
		stuck(t, s.ada(), answer)
	}
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {
		for range 39 {
			write(fmt.Sprintf(partial, big))
		}
		write(success)
	}))
	all := say(t, bob, session(bob), "hello")
	require.Equal(t, "completed", last(all), "%v", all[len(all)-3:])
}

// A message whose repetition is refused keeps its events.
func TestEventsAfterARefusedRepetition(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.UserAnswers = 1 })
	s.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", APIKey: "runtime-key", AgentID: "helper"})
	path := session(s.ada())
	body := object{"message": "hello", "clientMessageId": "one", "onDisconnect": "continue"}
	s.ada().Post(path+"/messages", body).Want(http.StatusBadGateway)
	answer := path + "/messages/" + messages(s.ada(), path)[1]["id"].(string)
	require.Equal(t, "done", names(follows(t, s.ada(), answer, "").rest())[3])
	s.deploy(endless(t))
	begins(t, s.ada(), session(s.ada()))
	s.ada().Post(path+"/messages", body).Error(http.StatusTooManyRequests, wire.RateLimited)
	got := names(follows(t, s.ada(), answer, "").rest())
	require.NotEmpty(t, got)
	require.Equal(t, "done", got[len(got)-1])
}
