package wire

// Scene is a prompt that is offered to users of an agent.
type Scene struct {
	Component

	TitleEN       string `json:"titleEn,omitempty"`
	DescriptionEN string `json:"descriptionEn,omitempty"`
	Icon          string `json:"icon,omitempty"`
	AgentName     string `json:"agentName"`
	Prompt        string `json:"prompt"`
	// prompt has more than 16 KiB and is empty here, in a list. Read the scene by its name.
	PromptOmitted bool `json:"promptOmitted,omitempty"`
	// Of the list, ascending.
	Order   int  `json:"order"`
	Enabled bool `json:"enabled"`
}

// SceneRequest creates or replaces a scene. An absent or empty field has its default.
type SceneRequest struct {
	// Of an existing scene, "" or its name.
	Name string `json:"name"`
	// The default is the name.
	Title         string `json:"title,omitempty"`
	TitleEN       string `json:"titleEn,omitempty"`
	Description   string `json:"description,omitempty"`
	DescriptionEN string `json:"descriptionEn,omitempty"`
	Icon          string `json:"icon,omitempty"`
	AgentName     string `json:"agentName"`
	Prompt        string `json:"prompt,omitempty"`
	Order         int    `json:"order,omitempty"`
	// The default is true.
	Enabled *bool `json:"enabled,omitempty"`
}
