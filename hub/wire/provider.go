package wire

import (
	"encoding/json"
	"errors"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// Model is a model of a provider, as a suggestion for agents.
type Model struct {
	ID          string `json:"id"`
	DisplayName string `json:"displayName,omitempty"`
	// In tokens.
	ContextWindow int `json:"contextWindow,omitzero"`
	// In tokens.
	MaxOutput int `json:"maxOutput,omitzero"`
}

// Provider is a model provider.
type Provider struct {
	// A UUID, or anthropic, openai or demo for a built-in provider.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Anthropic Messages, OpenAI Chat Completions, or the demo model of the runtime.
	Protocol string `json:"protocol"`
	// The key is sent in the header x-api-key, in Authorization, or not at all.
	AuthStyle string `json:"authStyle"`
	// The address before /v1/messages (anthropic) or /chat/completions (openai), without a
	// trailing slash. The values of its query are ***. Empty for the demo model.
	BaseURL string `json:"baseUrl"`
	// The header of the key, in place of x-api-key.
	APIKeyHeader string `json:"apiKeyHeader,omitempty"`
	// Further headers of each request.
	Headers map[string]string `json:"headers,omitzero"`
	// Further fields of each request; null removes a field. Texts in it are ***.
	Body map[string]any `json:"body,omitzero"`
	// openai: false leaves out stream_options. Absent: true.
	StreamUsage *bool `json:"streamUsage,omitempty"`
	// **** for a key of less than 24 characters. Empty without a key, or if it cannot be opened.
	MaskedKey string `json:"maskedKey"`
	HasKey    bool   `json:"hasKey"`
	// ready, missing, not_required (authStyle is none), or needs_reconfiguration: the key cannot be
	// opened with the encryption keys of the hub, and must be entered again.
	KeyState string `json:"keyState"`
	// It is built-in and read-only but for the key.
	Shared bool `json:"shared"`
	// Suggestions for agents.
	Models  []Model `json:"models"`
	Enabled bool    `json:"enabled"`
	Version int64   `json:"version"`
	// Absent for a built-in provider.
	CreatedAt Time `json:"createdAt,omitzero"`
	// Absent for a built-in provider.
	UpdatedAt Time `json:"updatedAt,omitzero"`
}

// CurrentVersion returns the version, which is the ETag of a response.
func (p Provider) CurrentVersion() int64 { return p.Version }

// ModelNamed returns the model with the id, which is zero for one that the provider does not list.
func (p Provider) ModelNamed(id string) Model {
	for _, m := range p.Models {
		if m.ID == id {
			return m
		}
	}

	return Model{}
}

// ProviderRequest creates or replaces a provider.
type ProviderRequest struct {
	// Unique in any letter case. Surrounding white space is removed.
	Name string `json:"name"`
	ProbeRequest

	Models []Model `json:"models,omitzero"`
	// The default is true.
	Enabled *bool `json:"enabled,omitempty"`
}

// ProbeRequest is a configuration to test.
type ProbeRequest struct {
	Protocol string `json:"protocol"`
	// The default is api_key for anthropic and with an APIKeyHeader, and otherwise bearer.
	AuthStyle string `json:"authStyle,omitempty"`
	// The default is that of the vendor. Without a user and a fragment. The host is a name in
	// ASCII, or an address in its usual form. The values of a query, such as
	// ?api-version=2024-10-21, are secrets: *** is the stored value.
	BaseURL string `json:"baseUrl,omitempty"`
	// Visible ASCII characters.
	APIKey KeyChange `json:"apiKey,omitzero"`
	// The header of the key: api-key for Azure. AuthStyle is then api_key.
	APIKeyHeader string `json:"apiKeyHeader,omitempty"`
	// Further headers of each request. Their values are secrets: *** is the stored value.
	Headers map[string]string `json:"headers,omitzero"`
	// Further fields of each request; null removes a field. Texts in it are secrets: *** is the
	// stored value.
	Body map[string]any `json:"body,omitzero"`
	// openai: false leaves out stream_options, which some servers reject. The default is true.
	StreamUsage *bool `json:"streamUsage,omitempty"`
}

// KeyChange is what happens to the stored key. The zero value leaves it as it is. In JSON it is a
// string, which replaces the key unless it is empty, or null, which removes the key.
type KeyChange struct {
	Value  string
	Remove bool
}

// MarshalJSON implements json.Marshaler.
func (k KeyChange) MarshalJSON() ([]byte, error) {
	if k.Remove {
		return []byte("null"), nil
	}

	return json.Marshal(k.Value)
}

// UnmarshalJSON implements json.Unmarshaler.
func (k *KeyChange) UnmarshalJSON(data []byte) error {
	*k = KeyChange{}
	if string(data) == "null" {
		k.Remove = true
		return nil
	}

	if err := jsonlimit.Unmarshal(data, &k.Value); err != nil {
		return errors.New("must be a string or null") // that of encoding/json may quote the key
	}

	return nil
}

// ProbeResult is the result of a connectivity test. It contains neither the response of the server
// nor the key.
type ProbeResult struct {
	OK        bool  `json:"ok"`
	LatencyMS int64 `json:"latencyMs"`
	// Absent if the server did not respond.
	HTTPStatus int `json:"httpStatus,omitzero"`
	// Absent if ok.
	ErrorCode string `json:"errorCode,omitempty"`
	Message   string `json:"message"`
	// The first 200 models of the server. Present if it was called and ok.
	Models    []Model `json:"models,omitzero"`
	CheckedAt Time    `json:"checkedAt"`
}
