package upstream

import "encoding/json"

// Name passes the name of the model that responds to Request.Named, once.
type Name struct {
	Named func(string) // may be nil
}

// Set passes a name, if it is the JSON of a text that is not empty. Servers send it in any or all
// events of a response.
func (n *Name) Set(raw json.RawMessage) {
	if n.Named == nil || len(raw) == 0 {
		return
	}

	var name string
	if json.Unmarshal(raw, &name) == nil && name != "" {
		n.Named(name)
		n.Named = nil
	}
}
