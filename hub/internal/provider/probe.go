package provider

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	defaultProbeTimeout = 10 * time.Second

	// recordTimeout bounds the audit entry of a probe, which is written even if the client has
	// disconnected.
	recordTimeout = 10 * time.Second

	maxProbes       = 16 // of this process at the same time
	maxTenantProbes = 4
)

// Values of ProbeResult.ErrorCode.
const (
	ProbeAddressDenied   = "address_denied" // private, or of a metadata service
	ProbeLookupFailed    = "lookup_failed"
	ProbeConnectFailed   = "connect_failed"
	ProbeTLSFailed       = "tls_failed"
	ProbeTimeout         = "timeout"
	ProbeRedirected      = "redirected" // redirects are not followed
	ProbeUnauthorized    = "unauthorized"
	ProbeNotFound        = "not_found"
	ProbeRateLimited     = "rate_limited"
	ProbeServerError     = "server_error"     // any other status
	ProbeInvalidResponse = "invalid_response" // not a list of models
	ProbeKeyUnreadable   = KeyUnreadable      // nothing was sent
)

// ProbeInput is the request to test a configuration that is not stored.
type ProbeInput struct {
	wire.ProbeRequest

	faults error // of a body
}

// UnmarshalJSON decodes a form. Its faults are those of all fields.
func (in *ProbeInput) UnmarshalJSON(data []byte) error {
	*in = ProbeInput{}
	in.faults = agent.DecodeForm(data, &in.ProbeRequest)
	return settings.NotObject(in.faults)
}

// Probe tests a configuration that is not stored.
func (s *Service) Probe(ctx context.Context, caller api.Caller, in ProbeInput) (wire.ProbeResult, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return wire.ProbeResult{}, err
	}

	fields := api.Fields{}
	settings.AddFaults(fields, in.faults)
	to := settings.Restore(fields, clean(fields, settingsOf(in.ProbeRequest)), agent.Provider{}) // nothing is stored
	if to.APIKey == settings.Masked {
		fields.Add("apiKey", "has no stored value that "+settings.Masked+" could stand for")
	}

	if err := settings.Err(fields, in.faults); err != nil {
		return wire.ProbeResult{}, err
	}

	event := caller.Event()
	event.TargetType = targetProvider
	return s.probe(ctx, event, to, nil)
}

// ProbeProvider tests a built-in provider or one of the tenant with its stored key.
func (s *Service) ProbeProvider(ctx context.Context, caller api.Caller, id string) (wire.ProbeResult, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return wire.ProbeResult{}, err
	}

	p, err := find(ctx, s.store.Read(), caller.TenantID, id)
	if err != nil {
		return wire.ProbeResult{}, err
	}

	to, openErr := s.open(p)
	return s.probe(ctx, p.event(caller.Event()), to, openErr)
}

// probe probes a provider and records the result. If openErr is not nil, nothing is sent.
func (s *Service) probe(ctx context.Context, event auditlog.Event, to agent.Provider, openErr error) (wire.ProbeResult, error) {
	end, err := s.beginProbe(event.TenantID)
	if err != nil {
		return wire.ProbeResult{}, err
	}
	defer end()
	// The caller may have lost access since the request began: then no key is sent.
	if err := s.store.DB.Tx(ctx, func(*sql.Tx) error { return nil }); err != nil {
		return wire.ProbeResult{}, err
	}

	result := wire.ProbeResult{OK: true, Message: "The demo model is part of the runtime and needs no connection."}
	switch {
	case openErr != nil:
		result = failed(ProbeKeyUnreadable)
	case to.Protocol != agent.ProtocolDemo:
		began := time.Now()
		probing, cancel := context.WithTimeout(ctx, s.cfg.ProbeTimeout)
		result = s.connect(probing, to)
		cancel()
		result.LatencyMS = time.Since(began).Milliseconds()
	}

	result.CheckedAt = wire.Time{Time: s.store.Now()}
	if event.Status = auditlog.Success; !result.OK {
		event.Status = auditlog.Failure
	}

	base, _, _ := strings.Cut(string(to.BaseURL), "?")
	detail := probeDetail{
		Protocol: to.Protocol, AuthStyle: to.AuthStyle, BaseURL: base, HTTPStatus: result.HTTPStatus, ErrorCode: result.ErrorCode,
	}
	// The key was sent: that is recorded even if the caller has no access any more.
	recording, cancel := context.WithTimeout(db.WithCheck(context.WithoutCancel(ctx), nil), recordTimeout)
	defer cancel()
	err = s.store.Change(recording, store.Change{}, func(tx *store.Tx) error {
		tx.Record(actionProbe.Record(event, detail))
		return nil
	})
	if err != nil {
		return wire.ProbeResult{}, err
	}

	return result, nil
}

// beginProbe returns a function that ends a probe of the tenant, or wire.RateLimited.
func (s *Service) beginProbe(tenantID string) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := 0
	for _, n := range s.probes {
		running += n
	}

	if running >= maxProbes || s.probes[tenantID] >= maxTenantProbes {
		return nil, &wire.Error{Code: wire.RateLimited, Message: "Too many probes are running: wait until they end.", RetryAfter: 5 * time.Second}
	}

	s.probes[tenantID]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.probes[tenantID]--; s.probes[tenantID] == 0 {
			delete(s.probes, tenantID)
		}
	}, nil
}

const (
	// maxModelList bounds the list of models in a response, in bytes. That of a large server has
	// some hundred KiB.
	maxModelList = 1 << 20

	// minEchoed is the shortest key that is searched in the names of models: a shorter one may be a
	// part of a name by chance.
	minEchoed = 4
)

// probeClient returns a client that connects to public addresses, or also to private ones, and
// follows no redirect: the key would go to a server that is not configured.
func probeClient(private bool) *http.Client {
	var allow func(netip.Addr) bool
	if private {
		allow = outbound.IsPrivate
	}

	client := outbound.Public(allow)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

// connect reads the list of models of a provider.
func (s *Service) connect(ctx context.Context, to agent.Provider) wire.ProbeResult {
	req, err := listRequest(ctx, to)
	if err != nil {
		return failed(ProbeConnectFailed)
	}

	res, err := s.client.Do(req)
	if err != nil {
		return failed(codeOf(err))
	}

	defer func() { _ = res.Body.Close() }() // the response was read, or is not needed
	result := readModels(res, settings.Secrets(to))
	result.HTTPStatus = res.StatusCode
	if ctx.Err() != nil && !result.OK && result.ErrorCode == ProbeInvalidResponse {
		result.ErrorCode, result.Message = ProbeTimeout, probeMessages[ProbeTimeout]
	}

	return result
}

// listRequest returns the request for the list of models, which costs nothing.
func listRequest(ctx context.Context, to agent.Provider) (*http.Request, error) {
	u, err := url.Parse(string(to.BaseURL))
	if err != nil {
		return nil, err
	}

	if to.Protocol == agent.ProtocolAnthropic {
		u = u.JoinPath("v1", "models")
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&limit=1000", "&")
	} else {
		u = u.JoinPath("models")
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}

	req.Close = true // the next probe looks the name up again
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "agenthost")
	if to.Protocol == agent.ProtocolAnthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}

	for name, value := range to.Headers {
		req.Header.Set(name, string(value))
	}

	switch {
	case to.APIKey == "" || to.AuthStyle == agentvalue.AuthNone:
	case to.AuthStyle == agentvalue.AuthBearer:
		req.Header.Set("Authorization", "Bearer "+string(to.APIKey))
	default:
		req.Header.Set(cmp.Or(to.APIKeyHeader, "X-Api-Key"), string(to.APIKey))
	}

	return req, nil
}

// readModels returns the result for a response.
func readModels(res *http.Response, secrets map[string]string) wire.ProbeResult {
	switch status := res.StatusCode; {
	case status == http.StatusOK:
	case status >= 300 && status < 400:
		return failed(ProbeRedirected)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return failed(ProbeUnauthorized)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return failed(ProbeNotFound)
	case status == http.StatusTooManyRequests:
		return failed(ProbeRateLimited)
	default:
		return failed(ProbeServerError)
	}

	body, err := io.ReadAll(io.LimitReader(res.Body, maxModelList+1))
	var list struct {
		Data *[]struct {
			ID          string `json:"id"`
			DisplayName string `json:"display_name"`
		} `json:"data"`
	}
	if err != nil || len(body) > maxModelList || jsonlimit.Unmarshal(body, &list) != nil || list.Data == nil {
		return failed(ProbeInvalidResponse)
	}

	models := []wire.Model{}
	for _, m := range *list.Data {
		if len(models) == maxModels {
			break
		}

		if !isName(m.ID, secrets) {
			continue
		}

		if !isName(m.DisplayName, secrets) {
			m.DisplayName = ""
		}

		models = append(models, wire.Model{ID: m.ID, DisplayName: m.DisplayName})
	}

	return wire.ProbeResult{OK: true, Message: "The server accepts the configuration.", Models: models}
}

// isName reports whether text from a server can be displayed as the name of a model. A name that
// contains a secret is not displayed.
func isName(text string, secrets map[string]string) bool {
	if text == "" || utf8.RuneCountInString(text) > maxModelID || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return false
	}

	for _, secret := range secrets {
		if text == secret || len(secret) >= minEchoed && strings.Contains(text, secret) {
			return false
		}
	}

	return true
}

// codeOf returns the code of a request that failed. The text of the error is not for users: it may
// contain addresses of the hub's network.
func codeOf(err error) string {
	var (
		lookup   *net.DNSError
		cert     *tls.CertificateVerificationError
		alert    tls.AlertError
		timedOut net.Error
	)
	switch {
	case errors.Is(err, outbound.ErrAddress):
		return ProbeAddressDenied
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timedOut) && timedOut.Timeout():
		return ProbeTimeout
	case errors.As(err, &lookup):
		return ProbeLookupFailed
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &cert), errors.As(err, &alert):
		return ProbeTLSFailed
	}

	return ProbeConnectFailed
}

func failed(code string) wire.ProbeResult {
	return wire.ProbeResult{ErrorCode: code, Message: probeMessages[code]}
}

// probeMessages has a message for each error code, with the remedy.
var probeMessages = map[string]string{
	ProbeAddressDenied:   "The address is private or reserved: use a public one, or permit probes of private addresses in the settings of the hub.",
	ProbeLookupFailed:    "The host name cannot be resolved: check the base URL.",
	ProbeTLSFailed:       "No secure connection can be made: check the scheme of the base URL and the certificate of the server.",
	ProbeTimeout:         "The server does not respond in time: check the base URL and the server.",
	ProbeRedirected:      "The server redirects: use the address of the API itself as the base URL.",
	ProbeUnauthorized:    "The server rejects the key: check the key and how it is sent.",
	ProbeNotFound:        "The server has no list of models at this address: check the base URL and the protocol.",
	ProbeRateLimited:     "The server is limiting requests: try again later.",
	ProbeServerError:     "The server responds with an error: try again later, or check the base URL.",
	ProbeInvalidResponse: "The server does not respond with a list of models: check the base URL and the protocol.",
	ProbeKeyUnreadable:   "The stored key cannot be opened: enter the key again.",
	ProbeConnectFailed:   "The server cannot be reached: check the base URL and the server.",
}
