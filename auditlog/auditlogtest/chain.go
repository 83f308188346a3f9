package auditlogtest

import (
	"encoding/hex"
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
