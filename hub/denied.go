package hub

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
)

// deniedDetail says what was refused to whom.
type deniedDetail struct {
	Method string `json:"method"`
	Route  string `json:"route"` // the pattern, as /api/v1/admin/users/:id
	Role   string `json:"role"`
	Needs  string `json:"needs"` // the group of roles, or needsSession
}

// needsSession is what a CLI token lacks on a route that any role may call.
const needsSession = "session"

// recordTimeout bounds how long a refusal may take to be recorded.
const recordTimeout = 10 * time.Second

// deniedActions has the action of a refusal for each category that a route may have.
var deniedActions = func() map[string]auditlog.Action[deniedDetail] {
	all := map[string]auditlog.Action[deniedDetail]{}
	for _, category := range []string{"auth", "user", "invite", "provider", "agent", "token", "aigc"} {
		all[category] = auditlog.Define[deniedDetail](category + ".denied")
	}
	return all
}()

// denied records that somebody wanted what the role does not allow.
func (h *Hub) denied(r *http.Request, route api.Route, caller api.Caller) error {
	// Also for a caller who does not wait for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), recordTimeout)
	defer cancel()
	event := api.RequestEvent(r)
	event.Status = auditlog.Failure
	event.TargetType, event.TargetName = "route", route.Method+" "+route.Path
	return h.audit.Append(ctx, deniedActions[cmp.Or(route.Category, "auth")].Record(event, deniedDetail{
		Method: route.Method, Route: route.Path, Role: string(caller.Role()), Needs: cmp.Or(route.Group.String(), needsSession),
	}))
}
