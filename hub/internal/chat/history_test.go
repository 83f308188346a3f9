package chat_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A history alternates and begins with the user. It has the latest messages whose JSON has at most
// 1 MiB, and at most as many as a runtime accepts. Text of the user that has no answer is a part of
// the message.
func TestHistories(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	user := func(text string) wire.Turn { return wire.Turn{Role: "user", Content: text} }
	model := func(text string) wire.Turn { return wire.Turn{Role: "assistant", Content: text} }
	var many []wire.Turn
	for i := range runvalue.MaxHistory/2 + 3 {
		many = append(many, user(fmt.Sprint("q", i)), model(fmt.Sprint("a", i)))
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	controls := strings.Repeat("\x01", most/6)
	rows := map[string]struct {
		stored, want []wire.Turn
		message      string
	}{
		"one of the user":          {[]wire.Turn{user("a")}, nil, "a\n\nhello"},
		"one of the agent":         {[]wire.Turn{model("a")}, nil, "hello"},
		"one without text":         {[]wire.Turn{user("a"), model(" \n"), user("b")}, nil, "a\n\nb\n\nhello"},
		"several of one":           {[]wire.Turn{model("0"), user("a"), user("b"), model("c"), model("d")}, []wire.Turn{user("a\n\nb"), model("c\n\nd")}, "hello"},
		"many":                     {many, many[6:], "hello"},
		"exactly 1 MiB":            {[]wire.Turn{user(x(most - 1)), model("a")}, []wire.Turn{user(x(most - 1)), model("a")}, "hello"},
		"1 MiB of words":           {[]wire.Turn{user(strings.Repeat("x ", most/2-1) + "y"), model("a")}, []wire.Turn{user(strings.Repeat("x ", most/2-1) + "y"), model("a")}, "hello"},
		"more than 1 MiB":          {[]wire.Turn{user(x(most)), model("a")}, nil, "hello"},
		"exactly 1 MiB in JSON":    {[]wire.Turn{user(controls), model("abcd")}, []wire.Turn{user(controls), model("abcd")}, "hello"},
		"more than 1 MiB in JSON":  {[]wire.Turn{user("a"), model("b"), user(controls), model("abcde")}, nil, "hello"},
		"escapes of 2 bytes":       {[]wire.Turn{user(strings.Repeat("\"\\\n\r\t\b\f", most/16)), model(x(most / 8))}, []wire.Turn{user(strings.Repeat("\"\\\n\r\t\b\f", most/16)), model(x(most / 8))}, "hello"},
		"more escapes of 2 bytes":  {[]wire.Turn{user(strings.Repeat("\"\\\n\r\t\b\f", most/16)), model(x(most/8 + 1))}, nil, "hello"},
		"the second of the former": {[]wire.Turn{user("a"), model(x(most))}, nil, "hello"},
	}
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		s.deploy(right(t))
		runs := s.record(nil)
		ada := s.ada()
		n := 0
		for name, row := range rows {
			id := fmt.Sprint("s", n)
			n++
			var all []object
			for i, turn := range row.stored {
				all = append(all, object{"id": fmt.Sprint(i), "role": turn.Role, "content": turn.Content, "created_at": day1})
			}
			require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed(id, day1, "messages", all)))))
			require.Equal(t, "completed", last(say(t, ada, sessions+"/"+id, "hello")), name)
			bodies := runs.take()
			require.Len(t, bodies, 1)
			var got wire.RunRequest
			require.NoError(t, json.Unmarshal(bodies[0], &got))
			require.Equal(t, row.message, got.Message, name)
			require.True(t, len(row.want) == len(got.History), "%s: %d turns", name, len(got.History))
			for i, turn := range row.want {
				require.True(t, turn.Role == got.History[i].Role && turn.Content == got.History[i].Content, "%s: %d", name, i)
			}
		}
	}, series...)
}

// A history that is cut holds no connection of the database while its run is in progress.
func TestAHistoryReleasesItsConnection(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = time.Hour }) // nothing else reads
	s.deploy(right(t))
	used := -1
	s.record(func(object) { used = s.db.Read().Stats().InUse })
	long := pushed("s1", day1)
	for _, m := range long["messages"].([]object) {
		m["content"] = strings.Repeat("\x01", 450<<10)
	}
	ada := s.ada()
	require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(long))))
	require.Equal(t, "completed", last(say(t, ada, sessions+"/s1", "hello")))
	require.Zero(t, used)
}
