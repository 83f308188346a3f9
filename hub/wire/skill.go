package wire

// Skill is an archive with a SKILL.md.
type Skill struct {
	Component

	// expert or community.
	Type          string `json:"type"`
	DescriptionEN string `json:"descriptionEn"`
	// missing if the archive no longer exists.
	Status string `json:"status"`
	// Of the archive behind the link.
	Hash string `json:"hash"`
	// Bytes of the archive.
	Size int64 `json:"size"`
}

// SkillUpdate changes the type and the texts of a skill. A nil field is not changed, or is that of
// the front matter if a file is uploaded.
type SkillUpdate struct {
	// An empty value means no change.
	Type *string `json:"type,omitempty"`
	// An empty value means the name.
	Title         *string `json:"title,omitempty"`
	Description   *string `json:"description,omitempty"`
	DescriptionEN *string `json:"descriptionEn,omitempty"`
}

// SkillLink is a link to the archive of a skill, which needs no other credential.
type SkillLink struct {
	URL       string `json:"url"`
	ExpiresAt Time   `json:"expiresAt"`
	Hash      string `json:"hash"`
	Size      int64  `json:"size"`
}
