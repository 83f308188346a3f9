package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	strict "github.com/go-jose/go-jose/v4/json"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Kinds of identity providers.
const (
	providerOIDC    = "oidc"
	providerCasdoor = "casdoor"
)

const (
	maxIssuer, maxClientID = 512, 256 // characters
	maxSecret, maxCert     = 1024, 16 << 10
)

// orgForm is the form of the name of an organization. It has no hyphen, so that the deployment key
// <org>-<name> is unambiguous.
var orgForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,62}$`)

// client is the registration of the hub with an identity provider, for one organization.
type client struct {
	wire.TenantClient
	secretEnc []byte
	certEnc   []byte // nil if there is none
	global    bool   // the client of Config.Global, which has no row
}

func (c client) view() wire.TenantClient {
	v := c.TenantClient
	v.HasSecret = len(c.secretEnc) > 0
	v.HasCert = len(c.certEnc) > 0
	return v
}

func validate(in wire.TenantClientRequest) error {
	faults := api.Fields{}
	checkOrg(faults, in.Org)
	faults.AddError("clientId", checkCredential(in.ClientID, maxClientID))
	if in.ClientSecret != nil {
		faults.AddError("clientSecret", checkCredential(*in.ClientSecret, maxSecret))
	}

	if in.Cert != nil && *in.Cert != "" {
		_, err := parseCert(*in.Cert)
		faults.AddError("cert", err)
	}

	if in.Issuer != nil {
		faults.AddError("issuer", checkIssuer(*in.Issuer))
	}

	if in.Provider != nil && *in.Provider != providerOIDC && *in.Provider != providerCasdoor {
		faults.Add("provider", "must be oidc or casdoor")
	}

	checkClaims(faults, in)
	return faults.Err()
}

func checkOrg(faults api.Fields, org string) {
	switch {
	case !orgForm.MatchString(org):
		faults.Add("org", "must be 1 to 63 of a-z and 0-9, and begin with a letter")
	case org == api.SystemTenant:
		faults.Add("org", "must not be system, which is the log of the hub itself")
	}
}

// checkCredential checks a client id or secret (RFC 6749, appendix A).
func checkCredential(s string, most int) error {
	if s == "" || len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("must be 1 to %d printable ASCII characters", most)
	}

	return nil
}

// checkIssuer accepts https, and http on this machine.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || len(issuer) > maxIssuer || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(issuer, "#") || !isSafe(u) {
		return errors.New("must be an https URL without query and fragment (http only on a loopback address)")
	}

	return nil
}

// isSafe reports whether secrets may be sent to the URL.
func isSafe(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	return u.Hostname() != "" && (u.Scheme == "https" || u.Scheme == "http" && local)
}

const (
	maxClaimName   = 128 // bytes
	maxClaimValue  = 255 // bytes
	maxClaimValues = 100
	maxGroups      = 256     // of a user
	maxGroupsSize  = 8 << 10 // bytes of their names together
)

// permits reports whether the user of the claims may sign in.
func (c client) permits(all claims) bool {
	return c.RequiredClaim == nil || slices.ContainsFunc(all.texts(c.RequiredClaim.Name), func(value string) bool {
		return slices.Contains(c.RequiredClaim.Values, value)
	})
}

// roleOf returns the role that the claims decide, or "" if the client has no such rule.
func (c client) roleOf(all claims) rbac.Role {
	if c.RoleClaim == nil {
		return ""
	}

	values := all.texts(c.RoleClaim.Name)
	for _, role := range []rbac.Role{rbac.Admin, rbac.Maintainer} {
		for _, value := range values {
			if c.RoleClaim.Map[value] == role {
				return role
			}
		}
	}

	return rbac.Member
}

// groupsOf returns the groups in the claims, sorted. Names that are too long, and those beyond the
// bounds, are left out: a group only grants access.
func (c client) groupsOf(all claims) []string {
	if c.GroupsClaim == "" {
		return nil
	}

	size := 0
	var groups []string
	for _, name := range all.texts(c.GroupsClaim) {
		if len(groups) == maxGroups || !isPlain(name, maxClaimValue) || size+len(name) > maxGroupsSize {
			continue
		}

		size += len(name)
		groups = append(groups, name)
	}

	slices.Sort(groups)
	return slices.Compact(groups)
}

// lacks reports whether a claim of the client's rules is missing.
func (c client) lacks(all claims) bool {
	return c.RequiredClaim != nil && all[c.RequiredClaim.Name] == nil || c.RoleClaim != nil && all[c.RoleClaim.Name] == nil ||
		c.GroupsClaim != "" && all[c.GroupsClaim] == nil
}

// checkClaims adds the faults of the rules of a client. An empty name removes a rule.
func checkClaims(faults api.Fields, in wire.TenantClientRequest) {
	if r := in.RequiredClaim; r != nil && r.Name != "" {
		faults.AddError("requiredClaim", checkRule(r.Name, r.Values))
	}

	if r := in.RoleClaim; r != nil && r.Name != "" {
		faults.AddError("roleClaim", checkRule(r.Name, slices.Collect(maps.Keys(r.Map))))
		for _, role := range r.Map {
			if role.Check() != nil {
				faults.Add("roleClaim", "must map to admin, maintainer or member")
			}
		}
	}

	if in.GroupsClaim != nil {
		faults.AddError("groupsClaim", checkGroupsClaim(*in.GroupsClaim))
	}
}

func checkGroupsClaim(name string) error {
	if name != "" && !isPlain(name, maxClaimName) {
		return errors.New("must have at most 128 bytes, without control characters")
	}

	return nil
}

func checkRule(name string, values []string) error {
	if !isPlain(name, maxClaimName) {
		return errors.New("must have a name of at most 128 bytes without control characters")
	}

	if len(values) < 1 || len(values) > maxClaimValues || slices.ContainsFunc(values, func(v string) bool { return !isPlain(v, maxClaimValue) }) {
		return errors.New("must have 1 to 100 values of at most 255 bytes without control characters")
	}

	return nil
}

func isPlain(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// named returns nil for a rule without a name, which removes the stored one.
func named[T any](rule *T, name string) *T {
	if name == "" {
		return nil
	}

	return rule
}

// ruleText returns a rule as the audit log has it.
func ruleText[T any](rule *T) string {
	if rule == nil {
		return ""
	}

	text, _ := json.Marshal(rule) // it has only texts
	return string(text)
}

// clientInput is a request whose member names are spelled exactly and occur once. Otherwise the one
// who checks a request and the hub could read different clients.
type clientInput struct{ wire.TenantClientRequest }

// UnmarshalJSON implements json.Unmarshaler.
func (in *clientInput) UnmarshalJSON(data []byte) error {
	if err := strict.Unmarshal(data, &in.TenantClientRequest); err != nil {
		return err
	}

	var folded wire.TenantClientRequest
	if err := json.Unmarshal(data, &folded); err != nil {
		return err
	}

	if !reflect.DeepEqual(in.TenantClientRequest, folded) {
		return errors.New("a member is not spelled exactly as in the documentation")
	}

	return nil
}
