package auditlogtest

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

func chain(t *testing.T, s auditlog.Store) {
	name, do := tenant(), declared()
	mustAppend(t, s, logins(name, 3)...)
	mustAppend(t, s, do.rename.Record(event(name, "u", "alice"), rename{auditlog.Change[string]{From: "王", To: "<>"}}))
	noted, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	mustAppend(t, s, logins(name, 3)...)
	head, err := s.Head(t.Context(), name)
	require.NoError(t, err)
	want := auditlog.Verification{OK: true, Checked: 7, FirstID: 1, HeadID: 7, HeadHash: hex.EncodeToString(head.Hash)}
	require.Equal(t, want, verified(t, s, name, noted, head))

	found := all(t, s, name, auditlog.Filter{}, nil)
	for i, e := range found {
		previous := make([]byte, 32)
		if i > 0 {
			previous = found[i-1].Hash
		}
		require.Equal(t, naiveSum(previous, e), hex.EncodeToString(e.Hash), "as the package comment of auditlog has it")
	}

	noted.Hash[5]++
	v, err := auditlog.Verify(t.Context(), s, name, noted)
	require.NoError(t, err)
	require.Equal(t, auditlog.Verification{
		Checked: 3, FirstID: 1, HeadID: 7, HeadHash: want.HeadHash, FirstBadID: 4, Reason: "head_mismatch",
	}, v)
}

// bytesOfPages reads pages that are bounded by the bytes of their details. They have all entries.
func bytesOfPages(t *testing.T, s auditlog.Store) {
	name := tenant()
	for i := range 12 {
		mustAppend(t, s, declared().sizes.Record(event(name, fmt.Sprint(i%2), "alice"), sizes{Text: strings.Repeat("x", 1000), Count: int64(i)}))
	}
	for _, filter := range []auditlog.Filter{{}, {Category: "user"}, {User: "ALICE"}} {
		for most, pages := range map[int]int{0: 1, 1: 12, 2200: 6, 1 << 20: 1} {
			var found []uint64
			read := 0
			for uint64(len(found)) < 12 {
				p := query(t, s, auditlog.Query{TenantID: name, Filter: filter, Offset: uint64(len(found)), Limit: 100, Bytes: most})
				require.EqualValues(t, 12, p.Total)
				require.NotEmpty(t, p.Items)
				for _, e := range p.Items {
					found = append(found, e.ID)
				}
				read++
			}
			require.Equal(t, pages, read)
			require.Equal(t, []uint64{12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, found)
		}
	}
}
