package wire

// AIGCRotation is a new key for labels, in place of another.
type AIGCRotation struct {
	KID         string `json:"kid"`
	PreviousKID string `json:"previousKid"`
	RotatedAt   Time   `json:"rotatedAt"`
}

// AIGCVerification reports whether a key of the organization signed a label, and the producer's
// fields are unchanged since.
type AIGCVerification struct {
	Valid bool `json:"valid"`
	// Absent if valid. unknown_key is not a key of the organization. key_unreadable cannot be opened
	// with the encryption keys of the hub.
	Reason string `json:"reason,omitempty"`
	// The key that the label names. Absent if it names none.
	KID string `json:"kid,omitempty"`
}

// AIGCSettings configure the labels of generated content (GB 45438-2025).
type AIGCSettings struct {
	AIGCLabeling
	Signing   AIGCSigning `json:"signing"`
	UpdatedAt Time        `json:"updatedAt"`
}

// AIGCLabeling states how content is labeled.
type AIGCLabeling struct {
	Enabled bool `json:"enabled"`
	// Required if enabled.
	CompanyName string `json:"companyName"`
	// The unified social credit code, or "". Its check digit must match.
	USCC string `json:"uscc"`
	// The code of the producer of the content, required if enabled: 0011, a unified social credit
	// code, 1 or 2, and 4 digits or letters. It must contain uscc if that is given.
	ContentProducer string `json:"contentProducer"`
	// The content is (1), is possibly (2), or is suspected to be (3) generated. Defaults to 1.
	Label string `json:"label"`
	// The beginning of each ProduceID: A-Z, a-z, 0-9, '.', '_' and '-'.
	ProduceIDPrefix string `json:"produceIdPrefix"`
	// The code of the organization as a propagator. Absent if there is none.
	Propagator string       `json:"propagator,omitempty"`
	Explicit   AIGCExplicit `json:"explicit"`
}

// AIGCExplicit is the label that a reader sees.
type AIGCExplicit struct {
	// hint, append, prepend or off. Defaults to hint.
	Mode string `json:"mode"`
	// Contains 人工智能 or AI, and 生成 or 合成. Defaults to 本内容由人工智能生成.
	Text string `json:"text"`
}

// AIGCSigning describes the signatures of labels.
type AIGCSigning struct {
	Enabled   bool   `json:"enabled"`
	Algorithm string `json:"algorithm"`
	// The key that signs. Absent if signing was never enabled.
	ActiveKID string `json:"activeKid,omitempty"`
	// The active one, then the newest, at most 1,000.
	Keys []AIGCKey `json:"keys"`
}

// AIGCKey is a key that signs labels. Its secret is never returned.
type AIGCKey struct {
	KID       string `json:"kid"`
	Status    string `json:"status"`
	CreatedAt Time   `json:"createdAt"`
}

// AIGCRequest replaces the settings of labels. An empty field has its default.
type AIGCRequest struct {
	AIGCLabeling
	Signing AIGCSigningRequest `json:"signing,omitzero"`
}

// AIGCSigningRequest is part of an [AIGCRequest].
type AIGCSigningRequest struct {
	Enabled   bool   `json:"enabled,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
}
