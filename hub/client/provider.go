package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Providers reads and changes model providers. Their names are ids.
type Providers struct {
	Catalog[Provider, ProviderRequest]
	Visible Reader[Provider] // for every member
}

// RuntimeConfig yields the providers as runtimes use them, without keys.
func (p Providers) RuntimeConfig(ctx context.Context) iter.Seq2[Provider, error] {
	return list[Provider](ctx, p.c, "/api/v1/providers/runtime-config", nil)
}

// RevealKey returns the key of a provider. The audit log records it.
func (p Providers) RevealKey(ctx context.Context, id string) (string, error) {
	body, err := send[struct {
		APIKey string `json:"apiKey"`
	}](ctx, p.c, http.MethodPost, p.path+"/"+segment(id)+"/reveal-key", nil)
	return body.APIKey, err
}

// Probe tests the connection to a provider. A failed test is a result, not an error.
func (p Providers) Probe(ctx context.Context, id string) (ProbeResult, error) {
	return send[ProbeResult](ctx, p.c, http.MethodPost, p.path+"/"+segment(id)+"/probe", nil)
}

// ProbeConfig tests a configuration that is not stored.
func (p Providers) ProbeConfig(ctx context.Context, req ProbeRequest) (ProbeResult, error) {
	return send[ProbeResult](ctx, p.c, http.MethodPost, p.path+"/probe", req)
}

// Model is a model of a provider.
type Model struct {
	ID            string `json:"id"`
	DisplayName   string `json:"displayName,omitempty"`
	ContextWindow int64  `json:"contextWindow,omitempty"` // in tokens
	MaxOutput     int64  `json:"maxOutput,omitempty"`     // in tokens
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
	// missing: there is none. not_required: there is none, and authStyle is none.
	// needs_reconfiguration: the key cannot be opened with the encryption keys of the hub, and
	// must be entered again.
	KeyState string `json:"keyState"`
	// It is built-in and read-only.
	Shared bool `json:"shared"`
	// Suggestions for agents.
	Models  []Model `json:"models"`
	Enabled bool    `json:"enabled"`
	Version int64   `json:"version"`
	// Absent for a built-in provider.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Absent for a built-in provider.
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

// ProviderRequest creates or replaces a provider.
type ProviderRequest struct {
	// The header of the key: api-key for Azure. authStyle is then api_key.
	APIKeyHeader string `json:"apiKeyHeader,omitempty"`
	// Further headers of each request. Their values are secrets: *** is the stored value.
	Headers map[string]*string `json:"headers,omitzero"`
	// Further fields of each request; null removes a field. Texts in it are secrets: *** is the
	// stored value.
	Body map[string]any `json:"body,omitzero"`
	// openai: false leaves out stream_options, which some servers reject. Defaults to true.
	StreamUsage *bool `json:"streamUsage,omitempty"`
	// Unique in any letter case. Surrounding white space is removed.
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	// The default is api_key for anthropic and bearer for openai.
	AuthStyle string `json:"authStyle,omitempty"`
	// The default is that of the vendor. Without a user and a fragment. The host is a name in
	// ASCII, or an address in its usual form. The values of a query, such as ?api-
	// version=2024-10-21, are secrets: *** is the stored value.
	BaseURL string `json:"baseUrl,omitempty"`
	// Visible ASCII characters. When a provider is replaced: absent or empty leaves the stored key
	// as it is, null removes it.
	APIKey  string  `json:"apiKey,omitempty"`
	Models  []Model `json:"models,omitzero"`
	Enabled *bool   `json:"enabled,omitempty"`
}

// ProbeRequest is a configuration to test.
type ProbeRequest struct {
	// The header of the key: api-key for Azure. authStyle is then api_key.
	APIKeyHeader string `json:"apiKeyHeader,omitempty"`
	// Further headers of each request. Their values are secrets: *** is the stored value.
	Headers map[string]*string `json:"headers,omitzero"`
	// Further fields of each request; null removes a field. Texts in it are secrets: *** is the
	// stored value.
	Body map[string]any `json:"body,omitzero"`
	// openai: false leaves out stream_options, which some servers reject. Defaults to true.
	StreamUsage *bool  `json:"streamUsage,omitempty"`
	Protocol    string `json:"protocol"`
	// The default is api_key for anthropic and bearer for openai.
	AuthStyle string `json:"authStyle,omitempty"`
	// The default is that of the vendor. Without a user and a fragment. The host is a name in
	// ASCII, or an address in its usual form. The values of a query, such as ?api-
	// version=2024-10-21, are secrets: *** is the stored value.
	BaseURL string `json:"baseUrl,omitempty"`
	APIKey  string `json:"apiKey,omitempty"`
}

// ProbeResult is the result of a connectivity test.
type ProbeResult struct {
	OK        bool  `json:"ok"`
	LatencyMS int64 `json:"latencyMs"`
	// Absent if the server did not respond.
	HTTPStatus int64 `json:"httpStatus,omitempty"`
	// Absent if ok.
	ErrorCode string `json:"errorCode,omitempty"`
	Message   string `json:"message"`
	// The first 200 models of the server. Present if it was called and ok.
	Models    []Model   `json:"models,omitzero"`
	CheckedAt time.Time `json:"checkedAt"`
}
