package chat_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/wire"
)

// fill replaces the messages of a session by those with the texts.
func (s *server) fill(path string, texts ...string) {
	s.t.Helper()
	id := path[strings.LastIndexByte(path, '/')+1:]
	s.exec(`UPDATE chat_sessions SET message_count = $1 WHERE id = $2`, len(texts), id)
	for i, text := range texts {
		s.exec(`INSERT INTO chat_messages (session_key, seq, tenant_id, id, role, status, text, created_at)
			VALUES ($1, $2, 'acme', $3, 'user', 'completed', $4, 0)`, id, i+1, fmt.Sprint("m", i+1), text)
	}
}

// A page has at most 4 MiB of JSON, or one message. The pages that next leads to have all messages.
func TestAPageOfMessagesIsBoundedInBytes(t *testing.T) {
	const most = 4 << 20
	with(t, nil, func(t *testing.T, s *server) {
		for name, row := range map[string]struct {
			texts []string
			pages []int
			admin bool
		}{
			"short":              {[]string{"a", "b", "c"}, []int{3}, false},
			"none":               {nil, []int{0}, true},
			"larger than a page": {[]string{"a", strings.Repeat("x", 5<<20), "b", "c"}, []int{1, 1, 2}, false},
			"several": {[]string{
				strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20), "a", "b"}, []int{1, 1, 3}, true},
			"longer in JSON": {[]string{
				strings.Repeat("<", 300<<10), strings.Repeat("\x01", 300<<10), strings.Repeat("\u2028", 100<<10), strings.Repeat("\"", 100<<10)}, []int{1, 1, 2}, true},
			"line separators":               {strings.Split(strings.Repeat(strings.Repeat("\u2028", 30<<10)+",", 19)+strings.Repeat("\u2028", 30<<10), ","), []int{15, 5}, true},
			"markup":                        {strings.Split(strings.Repeat(strings.Repeat("<", 30<<10)+",", 19)+strings.Repeat("<", 30<<10), ","), []int{20}, false},
			"a short one after longer ones": {[]string{strings.Repeat("x", 3<<20), strings.Repeat("x", 1<<20), "a"}, []int{1, 2}, false},
			"many":                          {strings.Split(strings.Repeat("x,", 249)+"x", ","), []int{100, 100, 50}, false},
		} {
			t.Run(name, func(t *testing.T) {
				ada := s.ada()
				path := session(ada)
				s.fill(path, row.texts...)
				list := path + "/messages"
				if row.admin {
					list = strings.Replace(list, sessions, admin, 1)
				}
				var texts []string
				var pages []int
				for next := ""; ; {
					res := ada.Get(list + "?page_size=100&cursor=" + next)
					page := res.Want(http.StatusOK)
					items := page["items"].([]any)
					if len(items) > 1 {
						require.LessOrEqual(t, len(res.Text), most)
					}
					require.EqualValues(t, len(row.texts), page["total"])
					for _, m := range items {
						texts = append(texts, m.(object)["text"].(string))
					}
					pages = append(pages, len(items))
					if next, _ = page["next"].(string); next == "" {
						break
					}
				}
				require.True(t, equal(row.texts, texts), "%d texts", len(texts))
				require.Equal(t, row.pages, pages)
			})
		}
	})
}

func equal(a, b []string) bool { return strings.Join(a, "|") == strings.Join(b, "|") }

func TestCursorsOfMessages(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		s.fill(path, "a", "b", "c")
		require.Equal(t, "2", ada.Get(path + "/messages?page_size=2").Want(http.StatusOK)["next"])
		require.NotContains(t, ada.Get(path+"/messages?page_size=2&page=2").Want(http.StatusOK), "next")
		require.Empty(t, ada.Get(path+"/messages?cursor=3").Items())
		require.Empty(t, ada.Get(path+"/messages?cursor=4503599627370495").Items())
		require.Empty(t, ada.Get(path+"/messages?page=4").Items())
		for _, next := range []string{"0", "-1", "a", "1.5", "%00"} {
			ada.Get(path+"/messages?cursor="+next).Error(http.StatusBadRequest, wire.InvalidRequest)
		}
	})
}

// connect sends a request on its own connection and does not read the response.
func connect(t *testing.T, c *apitest.Client, method, path string, body any) net.Conn {
	t.Helper()
	req := c.Request(method, path, body)
	conn, err := net.Dial("tcp", req.URL.Host)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	require.NoError(t, req.Write(conn))
	return conn
}

// A user whose clients do not read occupies the memory of eight pages. Other users are served, and
// so is this one when its clients are gone.
func TestSlowReadersOfMessages(t *testing.T) {
	const slow, places = 40, 8
	s := open(t, postgres(t))
	s.deploy(nil)
	ada, eve := s.ada(), s.As("acme", "eve", "member")
	path, other := session(ada), session(eve)
	long := strings.Repeat("x", 2<<20-8<<10)
	s.fill(path, long, long, long, long)
	s.fill(other, "hello")
	before := heap()
	own := path + "/messages?page_size=100"
	all := strings.Replace(own, sessions, admin, 1)
	for _, row := range []struct {
		method string
		lists  []string
	}{{http.MethodGet, []string{own}}, {http.MethodGet, []string{all}}, {http.MethodHead, []string{own, all}}} {
		var conns []net.Conn
		for i := range slow {
			conns = append(conns, connect(t, ada, row.method, row.lists[i%len(row.lists)], nil))
		}
		codes, most := responses(t, conns, ada.Request(row.method, path, nil))
		require.Equal(t, "hello", messages(eve, other)[0]["text"])
		if row.method == http.MethodGet {
			require.Equal(t, map[int]int{http.StatusOK: places, http.StatusTooManyRequests: slow - places}, codes)
			require.Less(t, most-before, int64(places*4<<20*15/2), "bytes on the heap") // that of all pages is more than 270 MiB
		}
		for _, conn := range conns {
			require.NoError(t, conn.Close())
		}
		require.Eventually(t, func() bool { return ada.Get(path+"/messages").Status == http.StatusOK }, time.Minute, 10*time.Millisecond)
	}
}

// A message that was sent before has its answer in the response, which is read from the database
// when the user has a place for a large response.
func TestSlowReadersOfARepeatedMessage(t *testing.T) {
	const slow, places, size = 70, 8, 4 << 20
	s := open(t, sqlite(t))
	s.deploy(nil)
	ada := s.ada()
	path := session(ada)
	s.orphan(path, "killed")
	s.exec(`DELETE FROM chat_runs`)
	long := strings.Repeat("x", size)
	s.exec(`UPDATE chat_messages SET text = $1, content = $2, status = 'completed' WHERE role = 'assistant'`, long, `[{"type":"text","text":"`+long+`"}]`)
	message := object{"message": "again", "clientMessageId": "c"}
	before := heap()
	var conns []net.Conn
	for range slow {
		conns = append(conns, connect(t, ada, http.MethodPost, path+"/messages", message))
	}
	count, most := responses(t, conns, nil)
	require.Equal(t, map[int]int{http.StatusOK: places, http.StatusTooManyRequests: slow - places}, count)
	require.Less(t, most-before, int64(places*size*20), "bytes on the heap")
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return ada.Post(path+"/messages", message).Status == http.StatusOK }, time.Minute, 10*time.Millisecond)
}

// responses reads the heads of the responses to a request on each connection. It returns how many
// have each status, and the most bytes on the heap until the last one.
func responses(t *testing.T, conns []net.Conn, req *http.Request) (codes map[int]int, most int64) {
	t.Helper()
	heads := make(chan *http.Response, len(conns))
	for _, conn := range conns {
		go func() {
			res, _ := http.ReadResponse(bufio.NewReaderSize(conn, 16), req)
			heads <- res
		}()
	}
	codes = map[int]int{}
	for range conns {
		for waits := true; waits; {
			select {
			case res := <-heads:
				require.NotNil(t, res)
				if codes[res.StatusCode]++; res.StatusCode == http.StatusTooManyRequests {
					require.Equal(t, "2", res.Header.Get("Retry-After"))
				}
				waits = false
			case <-time.After(time.Second):
				most = max(most, heap())
			}
		}
	}
	return codes, max(most, heap())
}

// heap returns the number of bytes that are in use, for tests that do not run next to others.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools have survives one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
