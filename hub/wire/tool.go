package wire

// Tool is a tool that agents can use. The file is that of a custom tool.
type Tool struct {
	Component

	DescriptionEN string `json:"descriptionEn"`
	// builtin or custom.
	Source string `json:"source"`
	// missing if the file of a custom tool no longer exists.
	Status   string `json:"status"`
	FileName string `json:"fileName,omitempty"`
	// sha256: and hexadecimal digits.
	Hash string `json:"hash,omitempty"`
	// Bytes.
	Size int64 `json:"size,omitempty"`
}

// ToolUpdate changes the texts of a tool. A nil field is not changed.
type ToolUpdate struct {
	// An empty value means the name.
	Title         *string `json:"title,omitempty"`
	Description   *string `json:"description,omitempty"`
	DescriptionEN *string `json:"descriptionEn,omitempty"`
}
