package wire

// BudgetRequest are the limits of a budget. Soft or Hard is required. Absent ones are nil.
type BudgetRequest struct {
	// Of the calendar in UTC: day or month.
	Period string `json:"period"`
	// tokens are those of input, with those of the cache, and of output; cost is in the currency of
	// the prices.
	Unit string `json:"unit"`
	// From which answers have a warning. At most hard.
	Soft *float64 `json:"soft,omitempty"`
	// Which runs that begin must not exceed.
	Hard *float64 `json:"hard,omitempty"`
	// What each run in progress counts for the hard limit until its end. Defaults to a hundredth of
	// the hard limit. If no run uses more, the hard limit is never exceeded.
	Reserve *float64 `json:"reserve,omitempty"`
}

// Budget limits what the runs of an agent or of a user use in a day or a month.
type Budget struct {
	Kind string `json:"kind"`
	Name string `json:"name"` // of the agent, or the id of the user

	BudgetRequest

	Spent     float64 `json:"spent"` // in the current period, by runs that have ended
	ResetsAt  Time    `json:"resetsAt"`
	UpdatedAt Time    `json:"updatedAt"`
}
