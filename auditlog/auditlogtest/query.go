package auditlogtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
)

func entries(t *testing.T, s auditlog.Store) {
	name := tenant()
	for range 6 {
		mustAppend(t, s, logins(name, 500)...)
	}

	want := uint64(1)
	for e, err := range s.Entries(t.Context(), name, auditlog.Filter{}, new(uint64(2500))) {
		require.NoError(t, err)
		require.Equal(t, want, e.ID)
		want++
		if want == 10 {
			mustAppend(t, s, logins(name, 1)...) // the loop holds no lock that others need
		}
	}

	require.Equal(t, uint64(2501), want)

	sequence := s.Entries(t.Context(), name, auditlog.Filter{}, nil)
	for range 2 { // it can be read again, and left early
		n := 0
		for _, err := range sequence {
			require.NoError(t, err)
			if n++; n == 3 {
				break
			}
		}

		require.Equal(t, 3, n)
	}

	require.Len(t, all(t, s, name, auditlog.Filter{User: "499"}, nil), 6)
	require.Len(t, all(t, s, name, auditlog.Filter{Category: "auth"}, new(uint64(7))), 7)
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
