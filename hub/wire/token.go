package wire

// Token is a CLI token without its secret.
type Token struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// The first characters, with which its owner recognizes it.
	Prefix    string `json:"prefix"`
	CreatedAt Time   `json:"createdAt"`
	// Null if the token does not expire.
	ExpiresAt Time `json:"expiresAt"`
	// Updated at most once a minute. Null if it was never used.
	LastUsedAt Time    `json:"lastUsedAt"`
	LastUsedIP *string `json:"lastUsedIp"`
}

// NewToken is a CLI token with its secret, which is returned only once.
type NewToken struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Token     string `json:"token"`
	Prefix    string `json:"prefix"`
	CreatedAt Time   `json:"createdAt"`
	ExpiresAt Time   `json:"expiresAt"`
}

// IssueTokenRequest issues a CLI token.
type IssueTokenRequest struct {
	// 1 to 100 characters in one line, without the invisible characters of DisplayName.
	// Surrounding white space is removed. Names need not be unique.
	Name string `json:"name"`
	// A token without days does not expire.
	ExpiresInDays *int `json:"expiresInDays,omitempty"`
}
