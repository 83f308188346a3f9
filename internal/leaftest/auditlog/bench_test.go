package auditlog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

// The cost of an entry in every store: its detail is encoded, and it is hashed.
func BenchmarkRecordAndSeal(b *testing.B) {
	type roleChange struct {
		Role auditlog.Change[string] `json:"role"`
	}
	updateRole := auditlog.Define[roleChange]("user.update_role")
	event := auditlog.Event{TenantID: "default", UserID: "0198c0de-0000-7000-8000-000000000000", UserName: "alice", TargetID: "0198c0de-0000-7000-8000-000000000001",
		RemoteIP: "192.0.2.1", UserAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
	var last auditlog.Head
	b.ReportAllocs()
	for b.Loop() {
		e := updateRole.Record(event, roleChange{auditlog.Change[string]{From: "member", To: "admin"}}).Entry()
		e.Seal(last, time.Now())
		last = e.Head()
	}
}

func BenchmarkMemoryQuery(b *testing.B) {
	s := new(memaudit.Store)
	records := make([]auditlog.Record, 100)
	for i := range records {
		records[i] = login.Record(auditlog.Event{TenantID: "t", UserName: "alice"}, auditlog.None{})
	}
	for range 1000 {
		require.NoError(b, s.Append(b.Context(), records...))
	}
	for _, depth := range []uint64{0, 99_980} {
		for name, f := range map[string]auditlog.Filter{"all": {}, "category": {Category: "auth"}} {
			b.Run(fmt.Sprintf("%s/depth=%d", name, depth), func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Query(b.Context(), auditlog.Query{TenantID: "t", Filter: f, Offset: depth, Limit: 20}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
