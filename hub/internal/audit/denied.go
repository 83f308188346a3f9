package audit

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// deniedDetail is the detail of a denied permission.
type deniedDetail struct {
	Method string `json:"method"`
	Route  string `json:"route"` // the pattern, such as /api/v1/admin/users/:id
	Role   string `json:"role"`
	Needs  string `json:"needs"` // the group of roles, needsSession, needsActive or needsKey
}

// Values of deniedDetail.Needs other than a group of roles.
const (
	needsSession = "session"        // a CLI token was used on a route that any role may call
	needsActive  = "active_account" // the caller is disabled
	needsKey     = "key"            // the key of the operations interface is wrong
)

// recordTimeout bounds the time to record a denied permission.
const recordTimeout = 10 * time.Second

// deniedActions has the action of a denied permission for each category of routes.
var deniedActions = func() map[string]auditlog.Action[deniedDetail] {
	all := map[string]auditlog.Action[deniedDetail]{}
	for _, category := range []string{"auth", "user", "invite", "provider", "agent", "token", "aigc"} {
		all[category] = auditlog.Define[deniedDetail](category + ".denied")
	}

	return all
}()

// maxDenials is how many denials of a caller are recorded within a minute. Further requests are
// rate limited. All wrong keys together count as one caller.
const maxDenials = 60

// Denied records that a caller lacks a permission, or is disabled.
func (s *Service) Denied(r *http.Request, route api.Route, caller api.Caller, reason wire.Code) error {
	if count := s.denials.Count(caller.UserID); count.Exceeded {
		return &wire.Error{Code: wire.RateLimited, RetryAfter: count.Reset}
	}

	// The entry is also written if the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), recordTimeout)
	defer cancel()
	event := caller.Event()
	event.Status = auditlog.Failure
	event.TargetType, event.TargetName = "route", route.Method+" "+route.Path
	category, needs := cmp.Or(route.Category, "auth"), cmp.Or(route.Group.String(), needsSession)
	switch reason {
	case code.AccountDisabled:
		category, needs = "auth", needsActive
	case wire.Unauthenticated:
		category, needs = "auth", needsKey
	}

	return s.store.Append(ctx, deniedActions[category].Record(event, deniedDetail{
		Method: route.Method, Route: route.Path, Role: string(caller.RoleNow), Needs: needs,
	}))
}
