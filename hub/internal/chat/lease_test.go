package chat_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/wire"
)

const patience = time.Minute // for conditions, on a busy machine

// lossy is a proxy of PostgreSQL that loses a connection at its COMMIT.
type lossy struct {
	t        *testing.T
	url      string
	upstream [2]string // network and address
	open     sync.WaitGroup

	marker  atomic.Pointer[string] // in the transaction whose connection is lost
	commits bool                   // the server receives the COMMIT
	lost    atomic.Int32

	mu    sync.Mutex // guards the fields below
	away  bool       // no connection is accepted
	conns []net.Conn // of clients
}

// cut closes all connections, and accepts no further ones until it is called with false.
func (l *lossy) cut(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// accept reports whether a connection is accepted.
func (l *lossy) accept(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	return !l.away
}

func newLossy(t *testing.T) *lossy {
	t.Helper()
	return lossyOf(t, postgres(t))
}

// lossyOf is newLossy with the URL of a database.
func lossyOf(t *testing.T, database string) *lossy {
	t.Helper()
	cfg, err := pgx.ParseConfig(database)
	require.NoError(t, err)
	l := &lossy{t: t, upstream: [2]string{"tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))}}
	if strings.HasPrefix(cfg.Host, "/") {
		l.upstream = [2]string{"unix", fmt.Sprintf("%s/.s.PGSQL.%d", cfg.Host, cfg.Port)}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l.url = fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", cfg.User, cfg.Password, listener.Addr(), cfg.Database)
	t.Cleanup(l.open.Wait)
	t.Cleanup(func() { listener.Close() })
	l.open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.open.Go(func() { l.forward(conn) })
		}
	})
	return l
}

func (l *lossy) forward(client net.Conn) {
	defer client.Close()
	if !l.accept(client) {
		return
	}
	server, err := net.Dial(l.upstream[0], l.upstream[1])
	if err != nil {
		return
	}
	defer server.Close()
	answered := make(chan struct{}, 1)
	var ending atomic.Bool
	l.open.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err == nil && ending.Load() {
				answered <- struct{}{} // the client does not receive it
				return
			}
			if err == nil {
				_, err = client.Write(buf[:n])
			}
			if err != nil {
				client.Close()
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	marked := false
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		marker := l.marker.Load()
		marked = marker != nil && (marked || bytes.Contains(buf[:n], []byte(*marker)))
		if marked && bytes.Contains(buf[:n], []byte("commit\x00")) && l.marker.CompareAndSwap(marker, nil) {
			l.lost.Add(1)
			if l.commits {
				ending.Store(true)
				_, _ = server.Write(buf[:n])
				<-answered
			}
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// patient accepts that a busy machine delays transactions.
func patient(c *config) { c.Relay.StoreTimeout = patience }

func quiet(c *config) { c.logger = slog.New(slog.DiscardHandler) }

// A connection to the database that is lost during a COMMIT does not lock a session, although the
// hub relays other answers and renews their leases.
func TestConnectionsLostDuringCommit(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"before it": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t)
			l.commits = commits
			s := open(t, l.url, quiet)
			s.deploy(hanging(t))
			ada := s.ada()
			other := session(ada)
			busy := send(t, ada, other, object{"message": "hello"})
			busy.until("partial_message")

			path := session(ada)
			message := object{"message": "a message of which the COMMIT is lost", "clientMessageId": "1"}
			l.marker.Store(new(message["message"].(string)))
			ada.Post(path+"/messages", message).Error(http.StatusServiceUnavailable, wire.Unavailable)
			require.EqualValues(t, 1, l.lost.Load())
			var again apitest.Response
			require.Eventually(t, func() bool {
				again = ada.Post(path+"/messages", message)
				return strings.HasPrefix(again.Header.Get("Content-Type"), "text/event-stream")
			}, patience, 20*time.Millisecond, "the run that never started is started")
			require.Contains(t, again.Text, `"status":"completed"`)
			all := messages(ada, path)
			require.Len(t, all, 2)
			require.Equal(t, "More.", all[1]["text"])
			require.Equal(t, "completed", ada.Post(path+"/messages", message).Want(http.StatusOK)["status"])

			l.marker.Store(new("More."))
			require.Equal(t, "completed", last(say(t, ada, path, "and the answer?")), "the answer is stored once more")
			require.EqualValues(t, 2, l.lost.Load())
			require.Equal(t, "completed", last(say(t, ada, path, "the session is free")))
			require.Len(t, messages(ada, path), 6)
			busy.cancel()
			eventually(t, ada, other)
			s.sizes(s.stored()...)
		})
	}
}

// A message whose COMMIT was perhaps lost does not end the session of the runtime, which has the
// conversation before.
func TestTheConversationContinuesAfterALostCommit(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	l.commits = true
	s := open(t, l.url, quiet)
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	say(t, ada, path, "hello")
	continued := func() (id string) {
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT runtime_session FROM chat_sessions`).Scan(&id))
		return id
	}
	before := continued()
	require.NotEmpty(t, before)
	l.marker.Store(new("a message of which the COMMIT is lost"))
	ada.Post(path+"/messages", object{"message": "a message of which the COMMIT is lost"}).Error(http.StatusServiceUnavailable, wire.Unavailable)
	require.EqualValues(t, 1, l.lost.Load())
	require.Eventually(t, func() bool { return messages(ada, path)[3]["status"] == "failed" }, patience, 20*time.Millisecond)
	require.Equal(t, before, continued())
}

// An answer whose transaction fails at its COMMIT is not reported as saved.
func TestAnAnswerThatIsNotStoredIsNotSaved(t *testing.T) {
	t.Parallel()
	s := open(t, postgres(t), quiet)
	s.deploy(nil)
	s.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = 'check_violation'; END $$`)
	s.exec(`CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON chat_messages DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW WHEN (NEW.status = 'completed') EXECUTE FUNCTION refuse()`)
	ada := s.ada()
	events := say(t, ada, session(ada), "hello")
	n := len(events)
	require.Equal(t, []string{"error", "done"}, names(events[n-2:]))
	require.NotContains(t, names(events[1:]), "hub")
}

// stored returns the sizes of all sessions by their messages.
func (s *server) stored() (sizes []int64) {
	s.t.Helper()
	rows, err := s.db.Read().QueryContext(s.t.Context(), `SELECT (SELECT COALESCE(SUM(`+bytesOfMessage+`), 0)
		FROM chat_messages m WHERE m.session_key = s.key) FROM chat_sessions s ORDER BY id`)
	require.NoError(s.t, err)
	defer rows.Close()
	for rows.Next() {
		var size int64
		require.NoError(s.t, rows.Scan(&size))
		sizes = append(sizes, size)
	}
	require.NoError(s.t, rows.Err())
	return sizes
}

// orphan stores an answer in progress of a hub, which does not relay it.
func (s *server) orphan(path, hubID string) {
	s.t.Helper()
	id := path[strings.LastIndexByte(path, '/')+1:]
	s.exec(`UPDATE chat_sessions SET message_count = 2, size = 1024 WHERE id = $1`, id)
	s.exec(`INSERT INTO chat_messages (session_key, seq, tenant_id, id, role, status, text, run_id, client_id, started, created_at)
		VALUES ($1, 1, 'acme', 'm1', 'user', 'completed', '', '', 'c', TRUE, 0), ($1, 2, 'acme', 'm2', 'assistant', 'partial', '', $1, NULL, TRUE, 0)`, id)
	s.exec(`INSERT INTO chat_runs (run_id, tenant_id, session_key, agent_name, hub_id) VALUES ($1, 'acme', $1, 'helper', $2)`, id, hubID)
}

// joins adds a hub to the table, which is silent.
func (s *server) joins(hubID string) {
	s.t.Helper()
	s.exec(`INSERT INTO hubs (id, beat) VALUES ($1, 1)`, hubID)
}

// removes removes a hub from the table.
func (s *server) removes(hubID string) {
	s.t.Helper()
	s.exec(`DELETE FROM hubs WHERE id = $1`, hubID)
}

func TestAnAnswerThatNoHubRelaysIsCancelled(t *testing.T) {
	with(t, hanging, func(t *testing.T, s *server) {
		ada := s.ada()
		busy := send(t, ada, session(ada), object{"message": "hello"})
		busy.until("partial_message")
		for name, hub := range map[string]string{"of this hub": s.store.HubID, "of a hub that was killed": "killed"} {
			t.Run(name, func(t *testing.T) {
				path := session(ada)
				s.orphan(path, hub)
				res := ada.Post(path+"/cancel", nil)
				if res.Status != http.StatusConflict { // the sweep was not first
					res.Want(http.StatusAccepted)
					eventually(t, ada, path)
				}
				require.Eventually(t, func() bool {
					return ada.Post(path+"/cancel", nil).Status == http.StatusConflict
				}, patience, 10*time.Millisecond)
				require.Equal(t, "completed", last(say(t, ada, path, "more")))
			})
		}
		s.joins("silent")
		path := session(ada)
		s.orphan(path, "silent")
		ada.Post(path+"/cancel", nil).Want(http.StatusAccepted)
		ada.Post(path+"/messages", object{"message": "more"}).Error(http.StatusConflict, wire.Conflict)
		s.removes("silent")
		eventually(t, ada, path)
		require.Equal(t, "completed", last(say(t, ada, path, "more")))
		busy.cancel()
	})
}

// The session of a hub that could not store its answer becomes free, also while the hub is busy.
func TestOrphansOfAHubEnd(t *testing.T) {
	with(t, hanging, func(t *testing.T, s *server) {
		ada := s.ada()
		busy := send(t, ada, session(ada), object{"message": "hello"})
		busy.until("partial_message")
		path := session(ada)
		s.orphan(path, s.store.HubID)
		require.Eventually(t, func() bool {
			return ada.Post(path+"/messages", object{"message": "more"}).Status == http.StatusOK
		}, patience, 50*time.Millisecond)
		require.Equal(t, "partial", messages(ada, path)[1]["status"])
		busy.cancel()
	})
}

// A message is sent again if its run never started, and only then.
func TestARepeatedMessageWhoseRunNeverStarted(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		good := *s.endpoint.Load()
		message := object{"message": "hello", "clientMessageId": "1"}
		for name, e := range map[string]deployment.Endpoint{
			"wrong key":     {URL: good.URL, APIKey: "wrong", AgentID: "helper"},
			"unknown agent": {URL: good.URL, APIKey: good.APIKey, AgentID: "other"},
			"no connection": {URL: "http://127.0.0.1:1", AgentID: "helper"},
		} {
			path := session(ada)
			s.endpoint.Store(&e)
			for range 2 {
				ada.Post(path+"/messages", message).Error(http.StatusBadGateway, code.UpstreamFailed)
			}
			require.Len(t, messages(ada, path), 2, name)
			s.endpoint.Store(&good)
			say(t, ada, path, "another in between")
			require.Equal(t, "completed", last(send(t, ada, path, object{"message": "other text", "clientMessageId": "1"}).rest()), name)
			all := messages(ada, path)
			require.Len(t, all, 4)
			require.Equal(t, []any{"hello", "completed", "completed"}, []any{all[0]["text"], all[1]["status"], all[3]["status"]})
			require.NotContains(t, all[1], "error")
			require.Equal(t, "completed", ada.Post(path+"/messages", message).Want(http.StatusOK)["status"])
		}
		s.sizes(s.stored()...)
		// Concurrent repeats start one run.
		path := session(ada)
		s.endpoint.Store(&deployment.Endpoint{URL: "http://127.0.0.1:1", AgentID: "helper"})
		ada.Post(path+"/messages", message).Error(http.StatusBadGateway, code.UpstreamFailed)
		s.endpoint.Store(&good)
		kinds := make(chan string, 5)
		for range cap(kinds) {
			go func() { kinds <- ada.Post(path+"/messages", message).Header.Get("Content-Type") }()
		}
		streams := 0
		for range cap(kinds) {
			if strings.HasPrefix(<-kinds, "text/event-stream") {
				streams++
			}
		}
		require.Equal(t, 1, streams)
	})
}

// A hub that was killed before it stored that the run started does not run the message twice.
func TestARunThatARuntimeHasAcceptedIsNotRepeated(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		message := object{"message": "hello", "clientMessageId": "1"}
		send(t, ada, path, message).rest()
		s.exec(`UPDATE chat_messages SET started = FALSE, status = 'partial', text = '' WHERE role = 'assistant'`)
		require.Equal(t, "failed", ada.Post(path+"/messages", message).Want(http.StatusOK)["status"])
		require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_messages WHERE role = 'assistant' AND NOT started`))
		require.Equal(t, "failed", ada.Post(path+"/messages", message).Want(http.StatusOK)["status"])
		require.Len(t, messages(ada, path), 2)
	})
}
