package wire

// Component has the fields of what agents can use, and of scenes. The id, the version and the times
// of a built-in tool are absent.
type Component struct {
	ID          string `json:"id,omitempty"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Version     int64  `json:"version,omitempty"`
	CreatedAt   Time   `json:"createdAt,omitzero"`
	UpdatedAt   Time   `json:"updatedAt,omitzero"`
}

// CurrentVersion returns the version, which is the ETag of a response.
func (c Component) CurrentVersion() int64 { return c.Version }
