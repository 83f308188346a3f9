package anthropic

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model"
)

// usage has totals of a response.
type usage struct {
	InputTokens              count `json:"input_tokens"`
	OutputTokens             count `json:"output_tokens"`
	CacheCreationInputTokens count `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     count `json:"cache_read_input_tokens"`

	// The same as CacheCreationInputTokens, by the time for which they are cached.
	CacheCreation struct {
		Ephemeral5m count `json:"ephemeral_5m_input_tokens"`
		Ephemeral1h count `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`

	// A part of OutputTokens.
	OutputTokensDetails struct {
		ThinkingTokens  count `json:"thinking_tokens"`
		ReasoningTokens count `json:"reasoning_tokens"` // of gateways
	} `json:"output_tokens_details"`
}

// UnmarshalJSON implements json.Unmarshaler. A value of another kind does not fail a run: the
// fields that can be read are set.
func (u *usage) UnmarshalJSON(raw []byte) error {
	type fields usage
	_ = json.Unmarshal(raw, (*fields)(u))
	return nil
}

// sum returns the tokens by kind. Thinking that is more than the output is counted separately.
func (u *usage) sum() model.Usage {
	thinking := int64(max(u.OutputTokensDetails.ThinkingTokens, u.OutputTokensDetails.ReasoningTokens))
	sum := model.Usage{
		InputTokens:              int64(u.InputTokens),
		OutputTokens:             int64(u.OutputTokens),
		CacheCreationInputTokens: int64(max(u.CacheCreationInputTokens, u.CacheCreation.Ephemeral5m+u.CacheCreation.Ephemeral1h)),
		CacheReadInputTokens:     int64(u.CacheReadInputTokens),
		ReasoningTokens:          thinking,
	}
	if thinking > sum.OutputTokens {
		sum.OutputTokens += thinking
	}

	return sum
}
