package provider

import (
	"context"
	"database/sql"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/rbac"
)

const (
	defaultProbeTimeout = 10 * time.Second

	// recordTimeout bounds the audit entry of a probe, which is written even if the client has
	// disconnected.
	recordTimeout = 10 * time.Second
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

// target is what a probe connects to.
type target struct{ protocol, authStyle, baseURL, key string }

// Probe tests a configuration that is not stored.
func (s *Service) Probe(ctx context.Context, caller api.Caller, in ProbeInput) (ProbeResult, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return ProbeResult{}, err
	}
	fields := api.Fields{}
	to := target{key: in.APIKey}
	to.protocol, to.authStyle, to.baseURL = checkTarget(fields, in.Protocol, in.AuthStyle, in.BaseURL)
	checkKey(fields, in.APIKey)
	if err := fields.Err(); err != nil {
		return ProbeResult{}, err
	}
	event := caller.Event()
	event.TargetType = targetProvider
	return s.run(ctx, event, to, nil)
}

// ProbeProvider tests a built-in provider or one of the tenant with its stored key.
func (s *Service) ProbeProvider(ctx context.Context, caller api.Caller, id string) (ProbeResult, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return ProbeResult{}, err
	}
	p, err := find(ctx, s.db.Read(), caller.TenantID, id)
	if err != nil {
		return ProbeResult{}, err
	}
	key, keyErr := s.open(p)
	return s.run(ctx, p.event(caller.Event()), target{p.Protocol, p.AuthStyle, p.BaseURL, key}, keyErr)
}

// run probes the target and records the result. If keyErr is not nil, nothing is sent.
func (s *Service) run(ctx context.Context, event auditlog.Event, to target, keyErr error) (ProbeResult, error) {
	free, err := s.probes.take(event.TenantID)
	if err != nil {
		return ProbeResult{}, err
	}
	defer free()
	// The caller may have lost access since the request began: then no key is sent.
	if err := s.db.Tx(ctx, func(*sql.Tx) error { return nil }); err != nil {
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
	result.CheckedAt = api.Time(s.now())
	if event.Status = auditlog.Success; !result.OK {
		event.Status = auditlog.Failure
	}
	detail := probeDetail{to.protocol, to.authStyle, to.baseURL, result.HTTPStatus, result.ErrorCode}
	// The key was sent: that is recorded even if the caller has no access any more.
	recording, cancel := context.WithTimeout(db.WithCheck(context.WithoutCancel(ctx), nil), recordTimeout)
	defer cancel()
	err = s.db.Tx(recording, func(tx *sql.Tx) error { return s.record(recording, tx, actionProbe.Record(event, detail)) })
	if err != nil {
		return ProbeResult{}, err
	}
	return result, nil
}
