package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// UsageCounts are tokens of some runs and their cost.
type UsageCounts struct {
	// A run counts for the model of its agent.
	Runs int64 `json:"runs"`
	// Without those of the cache.
	InputTokens      int64 `json:"inputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens"`
	CacheWriteTokens int64 `json:"cacheWriteTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	// A part of outputTokens. 0 if the model does not count them.
	ReasoningTokens int64 `json:"reasoningTokens"`
	// 0 for a model without a price.
	Cost Amount `json:"cost"`
	// Of each run, one for each model whose tokens are estimated. Absent without estimates.
	Estimates int64 `json:"estimates,omitempty"`
}

// UsageRow is the usage of a group of runs. Of the fields before the counts, those of other groups
// are empty.
type UsageRow struct {
	Day       string `json:"day,omitempty"` // 2006-01-02
	AgentName string `json:"agentName,omitempty"`
	UserID    string `json:"userId,omitempty"`
	// As of one of the runs.
	UserName string `json:"userName,omitempty"`
	// Absent if the run was cancelled before its first event.
	Model string `json:"model,omitempty"`

	UsageCounts
}

// Amount is an amount of the currency of the prices, by default US dollars, in billionths: sums are
// exact. Its JSON is a number of the currency.
type Amount int64

// String returns the decimal form, such as 0.0125.
func (a Amount) String() string {
	text := fmt.Sprintf("%d.%09d", int64(a)/1e9, int64(a)%1e9) // it is not negative
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Float returns the amount in the currency.
func (a Amount) Float() float64 { return float64(a) / 1e9 }

// MarshalJSON implements json.Marshaler.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (a *Amount) UnmarshalJSON(data []byte) error {
	value, err := strconv.ParseFloat(string(data), 64)
	if err != nil {
		return fmt.Errorf("read amount: %w", err)
	}

	*a = Amount(math.Round(value * 1e9))
	return nil
}
