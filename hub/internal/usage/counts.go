package usage

import (
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Bounds of counts: a runtime is not trusted, and sums must not overflow.
const (
	maxTokens = 1_000_000_000             // of one count of a run
	maxSum    = 1_000_000_000_000_000_000 // of each sum, which remains at this number
)

// bounded returns counts of a runtime between 0 and most.
func bounded(u runtimewire.Usage, most int64) runtimewire.Usage {
	for _, n := range []*int64{&u.InputTokens, &u.CacheReadInputTokens, &u.CacheCreationInputTokens, &u.OutputTokens, &u.ReasoningTokens} {
		*n = min(max(*n, 0), most)
	}

	return u
}

func countsOf(u runtimewire.Usage) wire.UsageCounts {
	c := wire.UsageCounts{
		InputTokens: u.InputTokens, CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
		OutputTokens: u.OutputTokens, ReasoningTokens: u.ReasoningTokens,
	}
	if u.Estimated {
		c.Estimates = 1
	}

	return c
}

// fieldsOf returns the counts in the order of countColumns.
func fieldsOf(c *wire.UsageCounts) []*int64 {
	return []*int64{
		&c.Runs, &c.InputTokens, &c.CacheReadTokens, &c.CacheWriteTokens, &c.OutputTokens, &c.ReasoningTokens, (*int64)(&c.Cost), &c.Estimates,
	}
}

// plus returns the sum of c and more, each count up to maxSum.
func plus(c, more wire.UsageCounts) wire.UsageCounts {
	sums := fieldsOf(&c)
	others := fieldsOf(&more)
	for i, n := range sums {
		*n = min(*n+*others[i], maxSum)
	}

	return c
}

// negative returns counts that subtract c.
func negative(c wire.UsageCounts) wire.UsageCounts {
	for _, n := range fieldsOf(&c) {
		*n = -*n
	}

	return c
}
