package sqlaudit_test

import (
	"bufio"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// writerEnv makes the test binary a process that writes: "<name> <goroutines> <entries of each, 0
// for ever> <address>".
const writerEnv = "SQLAUDIT_TEST_WRITER"

func TestMain(m *testing.M) {
	if job := os.Getenv(writerEnv); job != "" {
		if err := writeFor(context.Background(), job, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// The suite runs on two engines, and memaudit runs it with the default of 100.
	if err := flag.Set("rapid.checks", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	dbtest.Main(m)
}

// writeFor appends entries, one or three a call, half of them in a transaction of the caller's, and
// prints the target of each that was acknowledged.
func writeFor(ctx context.Context, job string, out io.Writer) error {
	f := strings.Fields(job)
	goroutines, err := strconv.Atoi(f[1])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(f[2])
	if err != nil {
		return err
	}
	d, err := db.Open(ctx, db.Config{URL: f[3]})
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	s, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	var mu sync.Mutex // guards out and err
	for g := range goroutines {
		all.Go(func() {
			for i := 0; n == 0 || i < n; i++ {
				name := fmt.Sprintf("%s-%d-%d", f[0], g, i)
				e := appendOne(ctx, d, s, name, g, i)
				mu.Lock()
				if e != nil {
					err = e
				} else {
					fmt.Fprintln(out, name)
				}
				mu.Unlock()
				if e != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return err
}

func appendOne(ctx context.Context, d *db.DB, s *sqlaudit.Store, name string, g, i int) error {
	e := event("t", g)
	e.TargetID = name
	record := auditlog.Define[auditlog.None]("auth.login").Record(e, auditlog.None{})
	if i%3 == 0 {
		record = auditlog.Define[roleChange]("user.update_role").Record(e, roleChange{})
	}
	switch i % 4 {
	case 0:
		return d.Tx(ctx, func(tx *sql.Tx) error { return s.AppendTx(ctx, tx, record) })
	case 1:
		return s.Append(ctx, record, login("other", g), login("t", g))
	default:
		return s.Append(ctx, record)
	}
}

// process starts a process that writes.
func process(t *testing.T, name string, goroutines, n int, url string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), self)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d %s", writerEnv, name, goroutines, n, url))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	return c, bufio.NewScanner(out)
}

// Eight writers in two processes, while a reader pages.
func TestSnapshotsAreStableUnderWrites(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		const each = 50
		s := store(t, database(t, url))
		var writers sync.WaitGroup
		for p := range 2 {
			c, out := process(t, fmt.Sprint("p", p), 4, each, url)
			writers.Go(func() {
				n := 0
				for out.Scan() {
					n++
				}
				require.NoError(t, c.Wait())
				require.Equal(t, 4*each, n)
			})
		}
		done := make(chan struct{})
		go func() { writers.Wait(); close(done) }()

		views := map[uint64][3]uint64{} // totals of each snapshot
		filters := []auditlog.Filter{{}, {Category: "user"}, {User: "user001"}}
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			first, err := s.Query(t.Context(), auditlog.Query{TenantID: "t"})
			require.NoError(t, err)
			var totals [3]uint64
			for i, f := range filters {
				totals[i] = pageThrough(t, s, first.Snapshot, f)
			}
			if before, ok := views[first.Snapshot]; ok {
				require.Equal(t, before, totals)
			}
			views[first.Snapshot] = totals
		}
		for snapshot, totals := range views {
			for i, f := range filters {
				p, err := s.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: f, Snapshot: &snapshot})
				require.NoError(t, err)
				require.Equal(t, totals[i], p.Total, "snapshot %d", snapshot)
			}
		}
		require.Greater(t, len(views), 1)
		v := verified(t, s, "t")
		require.EqualValues(t, 2*4*each+2*4*(each+2)/4, v.Checked)
		verified(t, s, "other")
	})
}

// pageThrough reads a view page by page. It has no gap and no repetition, and each page has the
// same total.
func pageThrough(t *testing.T, s auditlog.Store, snapshot uint64, f auditlog.Filter) (total uint64) {
	t.Helper()
	var found []auditlog.Entry
	for {
		p, err := s.Query(t.Context(), auditlog.Query{
			TenantID: "t", Filter: f, Snapshot: &snapshot, Offset: uint64(len(found)), Limit: 100,
		})
		require.NoError(t, err)
		require.Equal(t, snapshot, p.Snapshot)
		if len(found) > 0 {
			require.Equal(t, total, p.Total)
		}
		total = p.Total
		if len(p.Items) == 0 {
			break
		}
		found = append(found, p.Items...)
	}
	require.Len(t, found, int(total))
	var streamed []auditlog.Entry
	for e, err := range s.Entries(t.Context(), "t", f, &snapshot) {
		require.NoError(t, err)
		streamed = append(streamed, e)
	}
	slices.Reverse(streamed)
	require.Equal(t, streamed, found)
	for i, e := range found {
		require.True(t, f.Matches(e))
		if i > 0 {
			require.Less(t, e.ID, found[i-1].ID)
		}
		if f == (auditlog.Filter{}) {
			require.Equal(t, snapshot-uint64(i), e.ID)
		}
	}
	return total
}

func TestAcknowledgedEntriesSurviveKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		s := store(t, database(t, url))
		c, out := process(t, "killed", 8, 0, url)
		var acknowledged []string
		for out.Scan() {
			acknowledged = append(acknowledged, out.Text())
			if len(acknowledged) == 200 {
				require.NoError(t, c.Process.Kill()) // what comes after that was printed before
			}
		}
		require.Error(t, c.Wait())
		require.GreaterOrEqual(t, len(acknowledged), 200)

		there := map[string]bool{}
		for e, err := range s.Entries(t.Context(), "t", auditlog.Filter{}, nil) {
			require.NoError(t, err)
			there[e.TargetID] = true
		}
		for _, target := range acknowledged {
			require.True(t, there[target], target)
		}
		verified(t, s, "t")
		require.NoError(t, s.Append(t.Context(), login("t", 1)))
		verified(t, s, "t")
	})
}
