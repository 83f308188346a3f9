package external

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
)

const (
	flowLife    = 10 * time.Minute
	codeLife    = time.Minute
	maxReturnTo = 1024 // bytes
)

// flow is a login between its start and its callback.
type flow struct {
	stateHash   []byte
	browserHash []byte // of the cookie of the browser that started it
	org         string
	issuer      string
	clientID    string
	callback    string // the path of the redirect URI
	nonceHash   []byte
	verifierEnc []byte
	returnTo    string // a path of the console, or "" for a JSON response
	expiresAt   time.Time
}

// newToken returns a token of 256 random bits.
func newToken() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func hash(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

// globalCallback is the path of the redirect URI of the global client.
const globalCallback = "/auth/callback"

// callback returns the path of the client's redirect URI. Each client has its own: a provider
// cannot obtain a code of another one, because the code arrives at the path of the client that it
// was issued to, and the login at the path of the client that it was started with.
func (c client) callback() string {
	if c.global {
		return globalCallback
	}

	return globalCallback + "/" + c.Org
}

func (s *Service) oauth(c client, m metadata) (*oauth2.Config, error) {
	plain, err := s.open(c, c.secretEnc, sealedSecret.Place(c.Org, c.Issuer))
	if err != nil {
		return nil, err
	}

	style := m.authStyle()
	if c.Provider == providerCasdoor {
		style = oauth2.AuthStyleInParams
	}

	return &oauth2.Config{
		ClientID: c.ClientID, ClientSecret: plain, RedirectURL: s.cfg.PublicURL + c.callback(),
		Endpoint: oauth2.Endpoint{AuthURL: m.AuthURL, TokenURL: m.TokenURL, AuthStyle: style}, Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}, nil
}

// LoginInput starts a login.
type LoginInput struct {
	Org      string // Defaults to the default organization.
	ReturnTo string // a path of the console, or "" for a JSON response of the callback
	Browser  string // the cookie, or ""
	Devices  string // the device tokens of the browser, or ""
}

// StartLogin returns the address of the identity provider to which the browser has to go, and the
// cookie that it has to have at the callback.
func (s *Service) StartLogin(ctx context.Context, from api.Caller, in LoginInput) (string, string, error) {
	if fault := checkReturnTo(in.ReturnTo); fault != "" {
		return "", "", api.Fields{"return_to": fault}
	}

	if err := s.admitStart(ctx, from, in); err != nil {
		return "", "", err
	}

	c, err := s.clientFor(ctx, in.Org)
	if err != nil {
		return "", "", err
	}

	p := s.provider(c.Issuer)
	end, err := p.begin()
	if err != nil {
		return "", "", err
	}
	defer end()
	m, err := s.metadata(ctx, p)
	if err != nil {
		return "", "", err
	}

	oauth, err := s.oauth(c, m)
	if err != nil {
		return "", "", err
	}

	browser := in.Browser
	if !isToken(browser) {
		browser = newToken()
	}

	state, nonce, verifier := newToken(), newToken(), oauth2.GenerateVerifier()
	f := flow{
		stateHash: hash(state), browserHash: hash(browser), org: c.Org, issuer: c.Issuer, clientID: c.ClientID, callback: c.callback(),
		nonceHash: hash(nonce), returnTo: in.ReturnTo, expiresAt: s.store.Now().Add(flowLife),
	}
	f.verifierEnc = s.store.Keyring.Seal([]byte(verifier), verifierPlace(f))
	if err := insertFlow(ctx, s.store.DB.Write(), f); err != nil {
		return "", "", err
	}

	return oauth.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oidc.Nonce(nonce)), browser, nil
}

func verifierPlace(f flow) []byte {
	return secret.AAD("login_flows", "verifier_enc", hex.EncodeToString(f.stateHash))
}

// isToken reports whether the text has the form that newToken returns.
func isToken(s string) bool {
	return len(s) == 64 && !strings.ContainsFunc(s, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// checkReturnTo returns the fault of a path of the console, or "".
func checkReturnTo(to string) string {
	if to == "" {
		return ""
	}

	const fault = "must be a path below /console/ of this hub, without a fragment"
	u, err := url.Parse(to)
	if err != nil || len(to) > maxReturnTo || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" || strings.ContainsAny(to, "\\#") ||
		strings.ContainsFunc(to, func(r rune) bool { return r > '~' || r <= ' ' || unicode.IsControl(r) }) {
		return fault
	}

	clean := path.Clean(u.Path)
	if u.RawPath != "" || clean != "/console" && !strings.HasPrefix(clean, "/console/") || strings.TrimSuffix(u.Path, "/") != clean || u.Path != u.EscapedPath() {
		return fault
	}

	return ""
}

// errFlow does not distinguish an unknown login from one of another browser.
var errFlow = wire.InvalidRequest.New("The login is unknown, complete, older than 10 minutes, or was started in another browser: start again.")
