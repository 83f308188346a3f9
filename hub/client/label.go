package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Labels configures the labels of generated content.
type Labels struct{ c *Client }

const labelsPath = "/api/v1/admin/aigc/config"

// Get returns the settings. Without settings, only Enabled is set, to false.
func (l Labels) Get(ctx context.Context) (LabelSettings, error) {
	return get[LabelSettings](ctx, l.c, labelsPath, nil)
}

// Set replaces the settings.
func (l Labels) Set(ctx context.Context, req LabelRequest) (LabelSettings, error) {
	return send[LabelSettings](ctx, l.c, http.MethodPut, labelsPath, req)
}

// Delete deletes the settings. The keys remain, to verify labels.
func (l Labels) Delete(ctx context.Context) error {
	return done(ctx, l.c, http.MethodDelete, labelsPath, nil)
}

// RotateKey replaces the key that signs labels.
func (l Labels) RotateKey(ctx context.Context) (RotatedKey, error) {
	return send[RotatedKey](ctx, l.c, http.MethodPost, labelsPath+"/rotate-key", nil)
}

// Verify checks a label as it was received, byte by byte.
func (l Labels) Verify(ctx context.Context, label json.RawMessage) (LabelCheck, error) {
	return send[LabelCheck](ctx, l.c, http.MethodPost, "/api/v1/admin/aigc/verify", label)
}

// ExplicitLabel is a label that users see.
type ExplicitLabel struct {
	// hint, append, prepend or off.
	Mode string `json:"mode,omitempty"`
	// Contains 人工智能 or AI, and 生成 or 合成.
	Text string `json:"text,omitempty"`
}

// LabelSettings configure the labels of generated content (GB 45438-2025).
type LabelSettings struct {
	Enabled     bool   `json:"enabled"`
	CompanyName string `json:"companyName"`
	// The unified social credit code. May be empty.
	USCC string `json:"uscc"`
	// The code of the producer of the content. Empty only if not enabled.
	ContentProducer string `json:"contentProducer"`
	Label           string `json:"label"`
	ProduceIDPrefix string `json:"produceIdPrefix"`
	// The code of the organization as a propagator. Absent if there is none.
	Propagator string        `json:"propagator,omitempty"`
	Explicit   ExplicitLabel `json:"explicit"`
	Signing    LabelSigning  `json:"signing"`
	UpdatedAt  time.Time     `json:"updatedAt"`
}

// LabelSigning is part of [LabelSettings].
type LabelSigning struct {
	Enabled   bool   `json:"enabled"`
	Algorithm string `json:"algorithm"`
	// Absent if signing was never enabled.
	ActiveKID string `json:"activeKid,omitempty"`
	// The newest come first.
	Keys []LabelKey `json:"keys"`
}

// LabelKey is part of [LabelSettings].
type LabelKey struct {
	KID       string    `json:"kid"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"createdAt"`
}

// LabelRequest replaces the settings of labels.
type LabelRequest struct {
	Enabled *bool `json:"enabled,omitempty"`
	// Required if enabled.
	CompanyName string `json:"companyName,omitempty"`
	// Its check digit must match.
	USCC string `json:"uscc,omitempty"`
	// Required if enabled: 0011, a unified social credit code, 1 or 2, and 4 digits or letters. It
	// must contain uscc if that is given.
	ContentProducer string `json:"contentProducer,omitempty"`
	// The content is (1), is possibly (2), or is suspected to be (3) generated. The default is 1.
	Label string `json:"label,omitempty"`
	// The beginning of each ProduceID.
	ProduceIDPrefix string          `json:"produceIdPrefix,omitempty"`
	Propagator      string          `json:"propagator,omitempty"`
	Explicit        *ExplicitLabel  `json:"explicit,omitempty"`
	Signing         *SigningRequest `json:"signing,omitempty"`
}

// SigningRequest is part of a [LabelRequest].
type SigningRequest struct {
	Enabled   *bool  `json:"enabled,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
}

// RotatedKey is a new key for labels.
type RotatedKey struct {
	KID         string    `json:"kid"`
	PreviousKID string    `json:"previousKid"`
	RotatedAt   time.Time `json:"rotatedAt"`
}

// LabelCheck is the result of a verification.
type LabelCheck struct {
	Valid bool `json:"valid"`
	// Absent if valid. unknown_key is not a key of the organization. key_unreadable cannot
	// be opened with the encryption keys of the hub.
	Reason string `json:"reason,omitempty"`
	// The key that the label names. Absent if it names none.
	KID string `json:"kid,omitempty"`
}
