package relay

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each answer has free memory. What it uses beyond it is bounded for its tenant and for all, which
// would take a test with answers half a gigabyte.
func TestMemoryOfTenants(t *testing.T) {
	t.Parallel()
	b := newBudget(maxMemory)
	of := func(tenant string) *account { return &account{budget: b, holder: tenant} }
	small := of("a")
	require.NoError(t, small.reserve(freeMemory))
	require.Zero(t, b.used)
	require.NoError(t, small.reserve(1))
	require.Equal(t, 1, b.used)

	large := of("a")
	require.ErrorIs(t, large.reserve(freeMemory+maxTenantMemory), errMemory)
	require.NoError(t, large.reserve(freeMemory+maxTenantMemory-1))
	require.ErrorIs(t, small.reserve(1), errMemory)
	require.NoError(t, of("a").reserve(freeMemory), "what is free is always available")
	require.NoError(t, small.reserve(-1))
	require.NoError(t, large.reserve(1))
	var others []*account
	for _, tenant := range []string{"b", "c", "d"} {
		one := of(tenant)
		require.NoError(t, one.reserve(freeMemory+maxTenantMemory))
		others = append(others, one)
	}
	last := of("e")
	require.ErrorIs(t, last.reserve(freeMemory+1), errMemory)
	large.release()
	require.Equal(t, maxMemory-maxTenantMemory, b.used)
	require.NoError(t, last.reserve(freeMemory+maxTenantMemory))
	require.ErrorIs(t, last.reserve(1), errMemory)
	for _, one := range append(others, last, small) {
		one.release()
	}
	require.Zero(t, b.used)
	require.Empty(t, b.byHolder)
}

// Journals, which become shorter without memory, take none of that without which answers fail.
func TestJournalsLeaveMemoryForAnswers(t *testing.T) {
	r := &Relay{memory: newBudget(maxMemory), journalMemory: newBudget(maxJournalMemory), readers: newBudget(maxReaderMemory)}
	event := []byte("event: partial_message\ndata: {\"partial\":{\"type\":\"text\",\"text\":\"abcd\"}}\n\n")
	for range 17 {
		a := &Answer{relay: r, run: AnswerRun{TenantID: "acme", ID: "x"}}
		a.newJournal(1).append(bytes.Repeat(event, 100_000))
	}
	require.Less(t, r.journalMemory.used, maxJournalMemory/3)
	other := &account{budget: r.memory, holder: "acme"}
	require.NoError(t, other.reserve(maxTenantMemory))
}
