package wire

import "github.com/seed93082962/agenthost/internal/jsonlimit"

// Knowledge is a knowledge set: a dataset that the system prompt of an agent lists with its
// description.
type Knowledge struct {
	Component

	// The key of the datasets of the runtime.
	DatasetID string `json:"datasetId"`
	Enabled   bool   `json:"enabled"`
}

// KnowledgeRequest creates or replaces a knowledge set.
type KnowledgeRequest struct {
	// Of an existing knowledge set, "" or its name.
	Name string `json:"name"`
	// The default is the name.
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	DatasetID   string `json:"datasetId"`
	// The default is true.
	Enabled *bool `json:"enabled,omitempty"`
}

// KnowledgeRef is a knowledge set that an agent uses.
type KnowledgeRef struct {
	Name string `json:"name"`
	// Replaces that of the knowledge set for this agent, unless it is empty.
	Description string `json:"description,omitempty"`
}

// UnmarshalJSON also accepts a string, which is the name.
func (k *KnowledgeRef) UnmarshalJSON(data []byte) error {
	*k = KnowledgeRef{}
	if len(data) > 0 && data[0] == '"' {
		return jsonlimit.Unmarshal(data, &k.Name)
	}

	type plain KnowledgeRef
	return jsonlimit.Unmarshal(data, (*plain)(k))
}
