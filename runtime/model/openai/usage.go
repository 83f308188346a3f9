package openai

import (
	"cmp"
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model"
)

// usage has the totals of a response.
type usage struct {
	PromptTokens        count `json:"prompt_tokens"`
	CompletionTokens    count `json:"completion_tokens"`
	TotalTokens         count `json:"total_tokens"`
	PromptTokensDetails struct {
		CachedTokens count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	PromptCacheHitTokens count `json:"prompt_cache_hit_tokens"` // the same as CachedTokens of the details (DeepSeek)
	CachedTokens         count `json:"cached_tokens"`           // the same (Kimi)
	ReasoningTokens      count `json:"reasoning_tokens"`        // the same as those of the details (Perplexity)
}

// UnmarshalJSON implements json.Unmarshaler. A value of another kind does not fail a run: the
// fields that can be read are set.
func (u *usage) UnmarshalJSON(raw []byte) error {
	type fields usage
	_ = json.Unmarshal(raw, (*fields)(u))
	return nil
}

// sum returns the tokens by kind. Cached tokens are a part of the prompt's in this format, and
// thinking is a part of the completion. Some servers count them separately: then they are more than
// the whole of which they would be a part, or the total includes them in addition. Further tokens
// of a total are output, such as thinking that Gemini counts only there.
func (u *usage) sum() model.Usage {
	prompt, completion := int64(u.PromptTokens), int64(u.CompletionTokens)
	cached := int64(cmp.Or(u.PromptTokensDetails.CachedTokens, u.PromptCacheHitTokens, u.CachedTokens))
	thinking := int64(cmp.Or(u.CompletionTokensDetails.ReasoningTokens, u.ReasoningTokens))
	if cached > prompt {
		prompt += cached
	}

	if thinking > completion {
		completion += thinking
	}

	switch rest := int64(u.TotalTokens) - prompt - completion; {
	case rest <= 0:
	case prompt == 0, rest == cached && rest != thinking:
		prompt += rest
	case rest == cached+thinking:
		prompt += cached
		completion += thinking
	default:
		completion += rest
	}

	return model.Usage{
		InputTokens:          prompt - cached,
		OutputTokens:         completion,
		CacheReadInputTokens: cached,
		ReasoningTokens:      thinking,
	}
}
