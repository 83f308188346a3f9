package hub

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/internal/api"
)

// ownTenant is the form of the tenant of a user of the embedding program: that of an organization.
var ownTenant = regexp.MustCompile(`^[a-z][a-z0-9]{0,62}$`)

// maxOwn bounds the id and the names of a user of the embedding program, in bytes.
const maxOwn = 255

// authenticate returns the caller of a request: a user of the embedding program, or of the hub.
func (h *Hub) authenticate(r *http.Request) (api.Caller, error) {
	if h.cfg.Authenticate == nil {
		return h.sessions.Authenticate(r)
	}

	own, err := h.cfg.Authenticate(r)
	if err != nil {
		return api.Caller{}, fmt.Errorf("authenticate with Config.Authenticate: %w", err)
	}

	if own == nil {
		return h.sessions.Authenticate(r)
	}

	caller := api.Caller{
		UserID: own.UserID, UserName: cmp.Or(own.UserName, own.UserID), TenantID: cmp.Or(own.TenantID, api.DefaultTenant),
		Email: own.Email, Groups: own.Groups, RoleNow: own.RoleNow, Kind: api.Own,
	}
	caller.OrgID, caller.DisplayName = caller.TenantID, cmp.Or(own.DisplayName, caller.UserName)
	if err := caller.RoleNow.Check(); err != nil {
		return api.Caller{}, fmt.Errorf("authenticate with Config.Authenticate: %w", err)
	}

	if !ownTenant.MatchString(caller.TenantID) || caller.TenantID == api.SystemTenant {
		return api.Caller{}, errors.New("authenticate with Config.Authenticate: the tenant is not the name of an organization")
	}

	for _, text := range []string{caller.UserID, caller.UserName, caller.DisplayName, caller.Email} {
		if len(text) > maxOwn || !utf8.ValidString(text) || api.Plain(text) != text {
			return api.Caller{}, errors.New("authenticate with Config.Authenticate: an id or a name of the user is too long or cannot be displayed")
		}
	}

	if caller.UserID == "" {
		return api.Caller{}, errors.New("authenticate with Config.Authenticate: the user has no id")
	}

	return caller, nil
}
