package relay

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/fault"
)

// Remedies returns a function that adds to a failure who can do what about it, with the names of
// the provider and the model that the agent has now.
func (r *Relay) Remedies(ctx context.Context, tenantID, agentName string) func(wire.ChatError) *wire.ChatError {
	names := sync.OnceValues(func() (string, string) {
		if r.cfg.ModelOf == nil {
			return "", ""
		}

		provider, model, _ := r.cfg.ModelOf(ctx, tenantID, agentName) // without a name, no text
		return provider, model
	})
	return func(e wire.ChatError) *wire.ChatError {
		f, known := fault.Find(fault.Answer, e.Code)
		if !known {
			return &e
		}

		provider, model := names()
		if provider == "" {
			return &e
		}

		word := provider // of a command line
		if strings.ContainsAny(provider, " '\"\\$`&|;<>()*?!#~") {
			word = strconv.Quote(provider)
		}

		cause := strings.NewReplacer("PROVIDER", provider, "MODEL", model, "AGENT", agentName)
		remedy := strings.NewReplacer("PROVIDER", word, "MODEL", model, "AGENT", agentName)
		e.Remedy = cause.Replace(f.Cause) + ". " + remedy.Replace(strings.ToUpper(f.Remedy[:1])+f.Remedy[1:])
		return &e
	}
}
