package usage

import (
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Bounds of counts: a runtime is not trusted, and sums must not overflow.
const (
	maxTokens = 1_000_000_000             // of one count of a run
	maxSum    = 1_000_000_000_000_000_000 // of each sum, which remains at this number
)

// Counts are those of some runs.
type Counts struct {
	Runs             int64  `json:"runs"`
	InputTokens      int64  `json:"inputTokens"` // without those of the cache
	CacheReadTokens  int64  `json:"cacheReadTokens"`
	CacheWriteTokens int64  `json:"cacheWriteTokens"`
	OutputTokens     int64  `json:"outputTokens"`
	ReasoningTokens  int64  `json:"reasoningTokens"` // a part of OutputTokens
	Cost             Amount `json:"cost"`

	// Estimates are those in the tokens and the cost: of each run, one for each model whose tokens are
	// estimated.
	Estimates int64 `json:"estimates,omitempty"`
}

// bounded returns counts of a runtime between 0 and most.
func bounded(u runtimewire.Usage, most int64) runtimewire.Usage {
	for _, n := range []*int64{&u.InputTokens, &u.CacheReadInputTokens, &u.CacheCreationInputTokens, &u.OutputTokens, &u.ReasoningTokens} {
		*n = min(max(*n, 0), most)
	}

	return u
}

func countsOf(u runtimewire.Usage) Counts {
	c := Counts{
		InputTokens: u.InputTokens, CacheReadTokens: u.CacheReadInputTokens, CacheWriteTokens: u.CacheCreationInputTokens,
		OutputTokens: u.OutputTokens, ReasoningTokens: u.ReasoningTokens,
	}
	if u.Estimated {
		c.Estimates = 1
	}

	return c
}

// fields returns the counts in the order of countColumns.
func (c *Counts) fields() []*int64 {
	return []*int64{
		&c.Runs, &c.InputTokens, &c.CacheReadTokens, &c.CacheWriteTokens, &c.OutputTokens, &c.ReasoningTokens, (*int64)(&c.Cost), &c.Estimates,
	}
}

// add returns the sum of c and more, each count up to maxSum.
func (c Counts) add(more Counts) Counts {
	sums, others := c.fields(), more.fields()
	for i, sum := range sums {
		*sum = min(*sum+*others[i], maxSum)
	}

	return c
}

// negative returns counts that subtract c.
func (c Counts) negative() Counts {
	for _, n := range c.fields() {
		*n = -*n
	}

	return c
}
