package wire

// Health is the state of a hub.
type Health struct {
	Status   string `json:"status"`
	Version  string `json:"version"`
	UptimeMS int64  `json:"uptimeMs"`
}
