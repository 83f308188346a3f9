package sqlaudit_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/internal/db"
)

func requireDamaged(t *testing.T, err error, id uint64) {
	t.Helper()
	var damaged *auditlog.DamagedError
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, auditlog.DamagedError{TenantID: "t", ID: id}, *damaged)
	require.ErrorContains(t, err, "verify it")
}

// putAbove inserts an entry with the next id. The returned function deletes it.
func putAbove(t *testing.T, d *db.DB) (undo func()) {
	t.Helper()
	var tenant int64
	require.NoError(t, d.Read().QueryRow("SELECT tenant FROM audit_heads WHERE name = 't'").Scan(&tenant))
	_, err := d.Write().Exec(added("tenant", "4", "1"), tenant)
	require.NoError(t, err)
	return func() {
		_, err := d.Write().Exec("DELETE FROM audit_entries WHERE id = 4")
		require.NoError(t, err)
	}
}

func TestAppendReportsDamage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		warm, cold := store(t, d), store(t, d)
		for i := range 3 {
			require.NoError(t, warm.Append(t.Context(), login("t", i)))
		}
		undo := putAbove(t, d)
		for name, s := range map[string]*sqlaudit.Store{"that knows the log": warm, "that does not": cold} {
			t.Run(name, func(t *testing.T) {
				for range 2 {
					requireDamaged(t, s.Append(t.Context(), login("t", 1)), 4)
					requireDamaged(t, s.Append(t.Context(), login("t", 100), promote("t", 101)), 4)
				}
				tx, err := d.Write().BeginTx(t.Context(), nil)
				require.NoError(t, err)
				requireDamaged(t, s.AppendTx(t.Context(), tx, login("t", 1)), 4)
				require.NoError(t, tx.Rollback())
			})
		}
		// Other logs are not affected, even if they are written in the same transaction.
		var calls sync.WaitGroup
		for i := range 32 {
			calls.Go(func() {
				if i%4 == 0 {
					requireDamaged(t, warm.Append(context.Background(), login("t", i)), 4)
				} else {
					require.NoError(t, warm.Append(context.Background(), login(fmt.Sprintf("other%d", i%2), i)))
				}
			})
		}
		calls.Wait()
		require.EqualValues(t, 8, verified(t, warm, "other0").Checked)
		require.EqualValues(t, 16, verified(t, warm, "other1").Checked)

		undo()
		for _, s := range []*sqlaudit.Store{warm, cold} {
			require.NoError(t, s.Append(t.Context(), login("t", 1), promote("t", 101)))
		}
		require.EqualValues(t, 7, verified(t, warm, "t").Checked)
	})
}

// Each page that lacks an entry fails, and an export contains the remaining entries.
func TestQueryOverDeletedEntries(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		s := store(t, d)
		for i := range 60 {
			require.NoError(t, s.Append(t.Context(), login("t", i%3), promote("t", i%3)))
		}
		_, err := d.Write().Exec("DELETE FROM audit_entries WHERE id IN (1, 50, 119, 120)")
		require.NoError(t, err)
		page := func(f auditlog.Filter, offset uint64, limit int) (auditlog.Page, error) {
			return s.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: f, Offset: offset, Limit: limit})
		}
		early := auditlog.Filter{From: time.Now().Add(-time.Hour)}
		for range 3 {
			for _, row := range []struct {
				name    string
				offset  uint64
				missing uint64
			}{
				{"the first page", 0, 120},
				{"a page with one missing in its middle", 60, 50},
				{"a page that begins with one", 70, 50},
				{"a page that ends with one", 51, 50},
				{"the last page", 110, 1},
			} {
				_, err := page(auditlog.Filter{}, row.offset, 20)
				requireDamaged(t, err, row.missing)
			}
			for _, offset := range []uint64{2, 50, 71, 99} {
				p, err := page(auditlog.Filter{}, offset, 20)
				require.NoError(t, err)
				require.Len(t, p.Items, 20)
				require.Equal(t, 120-offset, p.Items[0].ID)
				require.EqualValues(t, 120, p.Total)
			}
			// Entry 50 is the 25th by category and by action, of 59 since the last one is not known
			// to be missing.
			for _, f := range []auditlog.Filter{{Category: "user"}, {Action: "user.update_role"}, {From: early.From, Category: "user"}} {
				for offset, whole := range map[uint64]bool{0: true, 14: true, 15: false, 25: false, 34: false, 35: true} {
					p, err := page(f, offset, 20)
					if !whole {
						requireDamaged(t, err, 0)
						continue
					}
					require.NoError(t, err)
					require.Len(t, p.Items, 20)
				}
			}
			for _, f := range []auditlog.Filter{
				{Category: "auth"}, {Action: "user.update_role"}, {User: "user"}, {User: "USER001"}, {User: "user00", Category: "auth"},
				early, {From: early.From, Category: "user"},
			} {
				p, err := page(f, 0, math.MaxInt32)
				if err == nil { // the total does not include missing entries
					require.Len(t, p.Items, int(p.Total))
					continue
				}
				var damaged *auditlog.DamagedError
				require.ErrorAs(t, err, &damaged, "%+v", f)
			}
		}
		answer := httptest.NewRecorder()
		auditlog.Handlers{Store: s, Tenant: func(*http.Request) string { return "t" }}.Export(answer, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		require.Equal(t, http.StatusOK, answer.Code)
		require.Equal(t, 116, strings.Count(answer.Body.String(), "\n"))

		v, err := auditlog.Verify(t.Context(), s, "t")
		require.NoError(t, err)
		require.EqualValues(t, 1, v.FirstBadID)
	})
}

// A page with a missing name fails, and an export contains the other texts.
func TestQueryOverDeletedNames(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		writer, reader := store(t, d), store(t, d)
		require.NoError(t, writer.Append(t.Context(), login("t", 1), login("t", 2), login("t", 2)))
		_, err := d.Write().Exec("DELETE FROM audit_keys WHERE kind = 4 AND name = 'User001'")
		require.NoError(t, err)
		for _, f := range []auditlog.Filter{{}, {Category: "auth"}, {To: time.Now().Add(time.Hour)}} {
			_, err = reader.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: f, Limit: 10})
			requireDamaged(t, err, 1)
			p, err := reader.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: f, Limit: 2})
			require.NoError(t, err)
			require.Equal(t, "User002", p.Items[1].UserName)
		}
		var left []string
		for e, err := range reader.Entries(t.Context(), "t", auditlog.Filter{}, new(uint64(3))) {
			require.NoError(t, err)
			left = append(left, e.UserName)
		}
		require.Equal(t, []string{"", "User002", "User002"}, left)
	})
}

// Concurrent appends and prunings, and names that are deleted and inserted again, are not reported
// as damage.
func TestVerifyDuringAppendsAndPrunings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, url string) {
		d := database(t, url)
		var stores []*sqlaudit.Store
		for range 2 {
			stores = append(stores, store(t, d))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var writing, others sync.WaitGroup
		for w, s := range stores {
			writing.Go(func() {
				for i := range 20 {
					require.NoError(t, s.Append(t.Context(), login("t", 100*w+i%50), promote("t", i)))
				}
			})
			writing.Go(func() {
				for i := range 10 {
					require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error { return s.AppendTx(t.Context(), tx, promote("t", 1000+i/10)) }))
				}
			})
			others.Go(func() {
				for ctx.Err() == nil {
					v, err := auditlog.Verify(t.Context(), s, "t")
					require.NoError(t, err)
					require.True(t, v.OK, "%+v", v)
				}
			})
			others.Go(func() {
				for ctx.Err() == nil {
					p, err := s.Query(t.Context(), auditlog.Query{TenantID: "t", Filter: auditlog.Filter{User: "user00"}, Offset: 10, Limit: 20})
					require.NoError(t, err)
					if len(p.Items) > 0 {
						_, err := s.Prune(t.Context(), "t", time.Since(p.Items[0].CreatedAt), pruneAudit)
						require.NoError(t, err)
					}
				}
			})
		}
		writing.Wait()
		cancel()
		others.Wait()
		verified(t, stores[0], "t")
	})
}
