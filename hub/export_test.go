package hub

import "github.com/seed93082962/agenthost/hub/api"

// Translate is what the hub makes of an error of another package.
func Translate(err error) *api.Error { return translate(err) }
