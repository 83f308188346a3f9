package provider

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/rbac"
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

// ProbeInput is a configuration to test. The fields are those of Input.
type ProbeInput struct {
	BaseURL   string `json:"baseUrl"`
	APIKey    string `json:"apiKey"`
	Protocol  string `json:"protocol"`
	AuthStyle string `json:"authStyle"`
}

// ProbeResult is the result of a probe. It contains neither the response of the server nor the key.
type ProbeResult struct {
	OK         bool     `json:"ok"`
	LatencyMS  int64    `json:"latencyMs"`
	HTTPStatus int      `json:"httpStatus,omitzero"` // if the server responded
	ErrorCode  string   `json:"errorCode,omitempty"` // one of the Probe constants; "" if OK
	Message    string   `json:"message"`
	Models     []Model  `json:"models,omitzero"` // if OK, at most 200
	CheckedAt  api.Time `json:"checkedAt"`
}

// Probe tests a configuration that is not stored.
func (s *Service) Probe(ctx context.Context, caller api.Caller, in ProbeInput) (ProbeResult, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return ProbeResult{}, err
	}
	fields := api.Fields{}
	to := target{protocol: in.Protocol, authStyle: in.AuthStyle, baseURL: in.BaseURL, key: in.APIKey}.clean(fields)
	if err := fields.Err(); err != nil {
		return ProbeResult{}, err
	}
	event := caller.Event()
	event.TargetType = targetProvider
	return s.probe(ctx, event, to, nil)
}

// ProbeProvider tests a built-in provider or one of the tenant with its stored key.
func (s *Service) ProbeProvider(ctx context.Context, caller api.Caller, id string) (ProbeResult, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return ProbeResult{}, err
	}
	p, err := find(ctx, s.store.Read(), caller.TenantID, id)
	if err != nil {
		return ProbeResult{}, err
	}
	key, keyErr := s.open(p)
	to := target{protocol: p.Protocol, authStyle: p.AuthStyle, baseURL: p.BaseURL, key: key}
	return s.probe(ctx, p.event(caller.Event()), to, keyErr)
}

// probe probes the target and records the result. If keyErr is not nil, nothing is sent.
func (s *Service) probe(ctx context.Context, event auditlog.Event, to target, keyErr error) (ProbeResult, error) {
	end, err := s.beginProbe(event.TenantID)
	if err != nil {
		return ProbeResult{}, err
	}
	defer end()
	// The caller may have lost access since the request began: then no key is sent.
	if err := s.store.DB.Tx(ctx, func(*sql.Tx) error { return nil }); err != nil {
		return ProbeResult{}, err
	}
	result := ProbeResult{OK: true, Message: "The demo model is part of the runtime and needs no connection."}
	switch {
	case keyErr != nil:
		result = failed(ProbeKeyUnreadable)
	case to.protocol != ProtocolDemo:
		began := time.Now()
		probing, cancel := context.WithTimeout(ctx, s.cfg.ProbeTimeout)
		result = s.connect(probing, to)
		cancel()
		result.LatencyMS = time.Since(began).Milliseconds()
	}
	result.CheckedAt = api.Time(s.store.Now())
	if event.Status = auditlog.Success; !result.OK {
		event.Status = auditlog.Failure
	}
	detail := probeDetail{
		Protocol: to.protocol, AuthStyle: to.authStyle, BaseURL: to.baseURL, HTTPStatus: result.HTTPStatus, ErrorCode: result.ErrorCode,
	}
	// The key was sent: that is recorded even if the caller has no access any more.
	recording, cancel := context.WithTimeout(db.WithCheck(context.WithoutCancel(ctx), nil), recordTimeout)
	defer cancel()
	err = s.store.Change(recording, store.Change{}, func(tx *store.Tx) error {
		tx.Record(actionProbe.Record(event, detail))
		return nil
	})
	if err != nil {
		return ProbeResult{}, err
	}
	return result, nil
}

// beginProbe returns a function that ends a probe of the tenant, or api.RateLimited.
func (s *Service) beginProbe(tenantID string) (end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := 0
	for _, n := range s.probes {
		running += n
	}
	if running >= maxProbes || s.probes[tenantID] >= maxTenantProbes {
		return nil, &api.Error{Code: api.RateLimited, Message: "Too many probes are running: wait until they end.", RetryAfter: 5 * time.Second}
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
