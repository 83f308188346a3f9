package usage

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Bounds of the report of a runtime, which is not trusted.
const (
	maxModels = 16  // of subagents; the tokens of further ones count for the model of the agent
	maxModel  = 200 // bytes of a name
)

// OfModels returns the tokens of the models of subagents as they are counted: those of the
// maxModels with the most tokens, by names that both databases can store.
func OfModels(reported map[string]wire.Usage) map[string]wire.Usage {
	cleaned := make(map[string]wire.Usage, len(reported))
	for model, tokens := range reported {
		name := cleanModel(model)
		cleaned[name] = cleaned[name].Add(tokens)
	}

	most := slices.SortedFunc(maps.Keys(cleaned), func(a, b string) int {
		return cmp.Or(cmp.Compare(tokensIn(cleaned[b]), tokensIn(cleaned[a])), cmp.Compare(a, b))
	})
	for _, model := range most[min(len(most), maxModels):] {
		delete(cleaned, model)
	}

	return cleaned
}

// cleanModel returns the name of a model as it is stored.
func cleanModel(name string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(excerpt.Head(name, maxModel), "\uFFFD"), "\x00", "\uFFFD")
}

// tokensIn returns the tokens of all kinds.
func tokensIn(u wire.Usage) int64 {
	u = bounded(u, maxTokens)
	return u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens + u.OutputTokens
}
