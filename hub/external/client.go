package external

import (
	"cmp"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/store"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
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
	Org       string
	Provider  string
	Issuer    string
	ClientID  string
	SecretEnc []byte
	CertEnc   []byte // nil if there is none
	IsDefault bool

	RequiredClaim       *RequiredClaim // or nil
	RoleClaim           *RoleClaim     // or nil
	LogoutRevokesTokens bool

	CreatedAt time.Time
	UpdatedAt time.Time

	global *GlobalClient // of the global client, which has no row
	key    crypto.PublicKey
}

// TenantClient is a client as operators see it.
type TenantClient struct {
	Org       string `json:"org"`
	ClientID  string `json:"clientId"`
	Issuer    string `json:"issuer"`
	Provider  string `json:"provider"`
	IsDefault bool   `json:"isDefault"`
	HasSecret bool   `json:"hasSecret"`
	HasCert   bool   `json:"hasCert"`

	RequiredClaim       *RequiredClaim `json:"requiredClaim,omitempty"`
	RoleClaim           *RoleClaim     `json:"roleClaim,omitempty"`
	LogoutRevokesTokens bool           `json:"logoutRevokesTokens,omitempty"`

	CreatedAt api.Time `json:"createdAt"`
	UpdatedAt api.Time `json:"updatedAt"`
}

func (c client) view() TenantClient {
	return TenantClient{
		Org: c.Org, ClientID: c.ClientID, Issuer: c.Issuer, Provider: c.Provider, IsDefault: c.IsDefault,
		HasSecret: len(c.SecretEnc) > 0, HasCert: len(c.CertEnc) > 0, RequiredClaim: c.RequiredClaim, RoleClaim: c.RoleClaim,
		LogoutRevokesTokens: c.LogoutRevokesTokens, CreatedAt: api.Time(c.CreatedAt), UpdatedAt: api.Time(c.UpdatedAt),
	}
}

// ClientInput is a client to register or to change. A nil field keeps the stored value.
// ClientSecret is required for a new client, and if the issuer or the provider changes: the stored
// secret must not be sent to another server.
type ClientInput struct {
	Org          string  `json:"org"`
	ClientID     string  `json:"clientId"`
	ClientSecret *string `json:"clientSecret"`
	Cert         *string `json:"cert"`      // PEM; "" removes it
	Issuer       *string `json:"issuer"`    // Defaults to that of the global client.
	Provider     *string `json:"provider"`  // Defaults to oidc.
	IsDefault    *bool   `json:"isDefault"` // false has no effect: another organization has to become the default

	RequiredClaim       *RequiredClaim `json:"requiredClaim"` // An empty name removes the rule.
	RoleClaim           *RoleClaim     `json:"roleClaim"`     // An empty name removes the rule.
	LogoutRevokesTokens *bool          `json:"logoutRevokesTokens"`

	// Adopt permits that the client gets data of the organization that belong to another one.
	Adopt bool `json:"adopt"`
}

func (in ClientInput) validate() error {
	faults := api.Fields{}
	checkOrg(faults, in.Org)
	check(faults, "clientId", checkCredential(in.ClientID, maxClientID))
	if in.ClientSecret != nil {
		check(faults, "clientSecret", checkCredential(*in.ClientSecret, maxSecret))
	}
	if in.Cert != nil && *in.Cert != "" {
		_, err := parseCert(*in.Cert)
		check(faults, "cert", fault(err))
	}
	if in.Issuer != nil {
		check(faults, "issuer", fault(checkIssuer(*in.Issuer)))
	}
	if in.Provider != nil && *in.Provider != providerOIDC && *in.Provider != providerCasdoor {
		faults.Add("provider", "must be oidc or casdoor")
	}
	in.checkClaims(faults)
	return faults.Err()
}

func fault(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func check(faults api.Fields, field, reason string) {
	if reason != "" {
		faults.Add(field, reason)
	}
}

func checkOrg(faults api.Fields, org string) {
	switch {
	case !orgForm.MatchString(org):
		faults.Add("org", "must be 1 to 63 of a-z and 0-9, and begin with a letter")
	case org == api.SystemTenant:
		faults.Add("org", "must not be system, which is the log of the hub itself")
	}
}

// checkCredential returns the fault of a client id or secret (RFC 6749, appendix A), or "".
func checkCredential(s string, most int) string {
	if s == "" || len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "must have printable ASCII characters, and not too many"
	}
	return ""
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

// UpsertClient registers the client of an organization or changes it, and reports whether it is
// new. The first one is the default. It fails with api.Conflict if the organization has data that
// belong to another issuer, unless Adopt is true: the access of the users of that issuer then ends.
func (s *Service) UpsertClient(ctx context.Context, from api.Caller, in ClientInput) (view TenantClient, created bool, err error) {
	if err := in.validate(); err != nil {
		return view, false, err
	}
	var after client
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		if err := lockClients(ctx, tx); err != nil {
			return err
		}
		before, err := lockClient(ctx, tx, in.Org)
		if created = errors.Is(err, errNoClient); err != nil && !created {
			return err
		}
		former, err := defaultClient(ctx, tx)
		if err != nil && !errors.Is(err, errNoClient) {
			return err
		}
		var detail clientDetail
		if after, detail, err = s.apply(in, before, created); err != nil {
			return err
		}
		after.IsDefault = former.Org == "" || former.Org == in.Org || in.IsDefault != nil && *in.IsDefault
		detail.IsDefault = auditlog.Diff(before.IsDefault, after.IsDefault)
		if detail == (clientDetail{}) { // nothing changes
			after = before
			return store.ErrUnchanged
		}
		if detail.Adopted, err = s.adopt(ctx, tx, in, before, after); err != nil {
			return err
		}
		tx.Record(actionUpsertClient.Record(clientEvent(from, after), detail))
		if after.IsDefault && former.Org != "" && former.Org != after.Org {
			if err := clearDefault(ctx, tx, former.Org, after.UpdatedAt); err != nil {
				return err
			}
			tx.Record(actionUpsertClient.Record(clientEvent(from, former), clientDetail{IsDefault: auditlog.Diff(true, false)}))
		}
		if err := putClient(ctx, tx, after); err != nil {
			return err
		}
		return putOwner(ctx, tx, after)
	})
	return after.view(), created, err
}

// apply returns the client with the input applied.
func (s *Service) apply(in ClientInput, before client, created bool) (after client, d clientDetail, err error) {
	now := s.store.Now()
	after = before
	if created {
		after = client{Org: in.Org, Provider: providerOIDC, Issuer: s.cfg.Global.Issuer, CreatedAt: now}
	}
	after.ClientID, after.UpdatedAt = in.ClientID, now
	if in.Issuer != nil {
		after.Issuer = *in.Issuer
	}
	if in.Provider != nil {
		after.Provider = *in.Provider
	}
	if after.Issuer == "" {
		return after, d, api.Fields{"issuer": "is required, because the hub has no global client"}
	}
	moved := after.Issuer != before.Issuer || after.Provider != before.Provider
	switch {
	case in.ClientSecret != nil:
		old, err := s.store.Keyring.Open(before.SecretEnc, sealedSecret.Place(in.Org))
		if err != nil || subtle.ConstantTimeCompare(old, []byte(*in.ClientSecret)) == 0 { // also one that cannot be opened
			after.SecretEnc, d.SecretChanged = s.store.Keyring.Seal([]byte(*in.ClientSecret), sealedSecret.Place(in.Org)), true
		}
	case created:
		return after, d, api.Fields{"clientSecret": "is required for a new client"}
	case moved:
		return after, d, api.Fields{"clientSecret": "is required if issuer or provider changes"}
	}
	if in.Cert != nil {
		d.CertChanged = s.applyCert(*in.Cert, &after)
	}
	if r := in.RequiredClaim; r != nil {
		after.RequiredClaim = named(r, r.Name)
	}
	if r := in.RoleClaim; r != nil {
		after.RoleClaim = named(r, r.Name)
	}
	if in.LogoutRevokesTokens != nil {
		after.LogoutRevokesTokens = *in.LogoutRevokesTokens
	}
	d.RequiredClaim, d.RoleClaim = auditlog.Diff(ruleText(before.RequiredClaim), ruleText(after.RequiredClaim)), auditlog.Diff(ruleText(before.RoleClaim), ruleText(after.RoleClaim))
	d.LogoutRevokesTokens = auditlog.Diff(before.LogoutRevokesTokens, after.LogoutRevokesTokens)
	d.Created = created
	d.ClientID, d.Issuer, d.Provider = auditlog.Diff(before.ClientID, after.ClientID), auditlog.Diff(before.Issuer, after.Issuer), auditlog.Diff(before.Provider, after.Provider)
	return after, d, nil
}

func (s *Service) applyCert(cert string, c *client) (changed bool) {
	if cert == "" {
		changed = c.CertEnc != nil
		c.CertEnc = nil
		return changed
	}
	if c.CertEnc != nil {
		if old, err := s.store.Keyring.Open(c.CertEnc, sealedCert.Place(c.Org)); err == nil && string(old) == cert {
			return false
		}
	}
	c.CertEnc = s.store.Keyring.Seal([]byte(cert), sealedCert.Place(c.Org))
	return true
}

// Clients returns a page of the registered organizations, by name.
func (s *Service) Clients(ctx context.Context, page api.Page) (list api.List[TenantClient], err error) {
	clients, total, err := clientsOf(ctx, s.store.Read(), page)
	list.Total = total
	for _, c := range clients {
		list.Items = append(list.Items, c.view())
	}
	return list, err
}

// opsUser is the user of audit entries of the operations interface.
const opsUser = "ops"

func clientEvent(from api.Caller, c client) auditlog.Event {
	e := from.Event()
	e.TenantID, e.UserName = c.Org, cmp.Or(e.UserName, opsUser)
	e.TargetType, e.TargetID, e.TargetName = targetOrg, c.Org, c.Org
	return e
}

// Sealed returns the columns of the secrets of clients.
func Sealed() []store.Sealed { return []store.Sealed{sealedSecret, sealedCert} }

var (
	sealedSecret = store.Sealed{Table: "tenant_clients", Column: "client_secret_enc", ID: "org", Required: true}
	sealedCert   = store.Sealed{Table: "tenant_clients", Column: "cert_enc", ID: "org", Required: true}
)

// isOpsKey compares in constant time.
func (s *Service) isOpsKey(key string) bool {
	given, want := sha256.Sum256([]byte(key)), sha256.Sum256([]byte(s.cfg.OpsKey))
	return s.cfg.OpsKey != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}
