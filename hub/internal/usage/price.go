package usage

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// Price is the price of a model for a million tokens, in any currency; those of [DefaultPrices] are
// US dollars.
type Price struct {
	Input      float64 `json:"input"`
	CacheRead  float64 `json:"cacheRead"`  // of tokens that were read from a prompt cache
	CacheWrite float64 `json:"cacheWrite"` // of tokens that were written to a prompt cache
	Output     float64 `json:"output"`     // also of reasoning
}

// maxPrice bounds a price: the cost of a run has to fit in 64 bits.
const maxPrice = 10_000

// maxRunCost bounds the cost of one model in a run, of which sums of 900,000 fit in 64 bits.
const maxRunCost wire.Amount = 10_000 * 1e9

// Check returns an error if it cannot be the price of the model of a name.
func (p Price) Check(name string) error {
	for _, one := range []float64{p.Input, p.CacheRead, p.CacheWrite, p.Output} {
		if !(one >= 0 && one <= maxPrice) { // false for NaN
			return fmt.Errorf("price of model %q: a price is a number from 0 to %d for a million tokens", name, maxPrice)
		}
	}

	return nil
}

// of returns the cost of the tokens of a run, up to maxRunCost.
func (p Price) of(c wire.UsageCounts) wire.Amount {
	const perToken = 1e9 / 1e6 // billionths of the price of a million
	cost := float64(c.InputTokens)*p.Input + float64(c.CacheReadTokens)*p.CacheRead + float64(c.CacheWriteTokens)*p.CacheWrite +
		float64(c.OutputTokens)*p.Output
	return min(wire.Amount(math.Round(cost*perToken)), maxRunCost)
}

// priceOf returns the price of a model, that of its name or of the longest prefix, and whether
// there is one.
func priceOf(prices map[string]Price, model string) (Price, bool) {
	if price, ok := prices[model]; ok {
		return price, true
	}

	for n := len(model); n >= 0; n-- {
		if price, ok := prices[model[:n]+"*"]; ok {
			return price, true
		}
	}

	return Price{}, false
}

// unpricedDays is the range of Unpriced.
const unpricedDays = 30

// Unpriced returns the models of recent runs of all tenants that have no price, neither one of the
// given nor a default: budgets in cost do not limit them.
func Unpriced(ctx context.Context, q db.Querier, prices map[string]Price, now time.Time) ([]string, error) {
	used, err := recentModels(ctx, q, dayOf(now)-unpricedDays)
	all := DefaultPrices()
	maps.Copy(all, prices)
	var models []string
	for _, model := range used {
		if _, known := priceOf(all, model); !known {
			models = append(models, model)
		}
	}

	return models, err
}

// DefaultPrices returns the list prices of well-known models, in US dollars. They are prefixes,
// because the names of versions end in dates. Contracts, regions and later models have others: set
// [Config].Prices.
func DefaultPrices() map[string]Price {
	prices := map[string]Price{
		"gpt-4o*": {Input: 2.5, CacheRead: 1.25, Output: 10}, "gpt-4o-mini*": {Input: 0.15, CacheRead: 0.075, Output: 0.6},
		"gpt-4.1*": {Input: 2, CacheRead: 0.5, Output: 8}, "gpt-4.1-mini*": {Input: 0.4, CacheRead: 0.1, Output: 1.6},
		"gpt-4.1-nano*": {Input: 0.1, CacheRead: 0.025, Output: 0.4},
		"gpt-5*":        {Input: 1.25, CacheRead: 0.125, Output: 10}, "gpt-5-mini*": {Input: 0.25, CacheRead: 0.025, Output: 2},
		"gpt-5-nano*": {Input: 0.05, CacheRead: 0.005, Output: 0.4}, "gpt-5-pro*": {Input: 15, Output: 120},
		"o3": {Input: 2, CacheRead: 0.5, Output: 8}, "o3-2025*": {Input: 2, CacheRead: 0.5, Output: 8}, // other names of o3 have other prices
		"o4-mini": {Input: 1.1, CacheRead: 0.275, Output: 4.4}, "o4-mini-2025*": {Input: 1.1, CacheRead: 0.275, Output: 4.4},
		"deepseek-chat": {Input: 0.27, CacheRead: 0.07, Output: 1.1}, "deepseek-reasoner": {Input: 0.55, CacheRead: 0.14, Output: 2.19},
	}
	// Of Claude, a write to the cache costs 1.25 times as much as input, a read a tenth.
	for name, price := range map[string]Price{
		"claude-opus-4": {Input: 15, Output: 75}, "claude-opus-4-5": {Input: 5, Output: 25}, "claude-sonnet-4": {Input: 3, Output: 15},
		"claude-haiku-4-5": {Input: 1, Output: 5}, "claude-3-7-sonnet": {Input: 3, Output: 15}, "claude-3-5-sonnet": {Input: 3, Output: 15},
		"claude-3-5-haiku": {Input: 0.8, Output: 4}, "claude-3-haiku": {Input: 0.25, Output: 1.25},
	} {
		price.CacheRead, price.CacheWrite = price.Input/10, price.Input*1.25
		prices[name+"*"] = price
	}

	return prices
}
