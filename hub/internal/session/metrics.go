package session

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/meter"
)

// Methods of a login.
const (
	byPassword = "password"
	byProvider = "external"
)

// codesOfLogins are the outcomes of logins that fail. Another one is an error.
var codesOfLogins = []wire.Code{code.InvalidCredentials, code.AccountDisabled, wire.RateLimited, wire.Unavailable, wire.ValidationFailed}

const (
	outcomeSuccess  = "success"
	outcomeRejected = "rejected" // by the rules of an organization, or by its identity provider
	outcomeError    = "error"
)

// metrics has the instruments of sign-ins.
type metrics struct {
	logins metric.Int64Counter
	stop   func()
}

// newMetrics returns the instruments. load returns the password hashes that are computed and that
// wait.
func newMetrics(p metric.MeterProvider, load func() (computed, waiting int)) (metrics, error) {
	m := meter.New(p, "github.com/seed93082962/agenthost/hub/internal/session")
	s := metrics{logins: m.Counter("agenthost.hub.logins", "Logins by method, password or external, and outcome.")}
	hashes := m.Gauge("agenthost.hub.password.hashes", "Password hashes by state, computed or waiting.", "")
	computedState, waitingState := meter.Of("state", "computed"), meter.Of("state", "waiting")
	s.stop = m.Observe(func(o metric.Observer) {
		computed, waiting := load()
		o.ObserveFloat64(hashes, float64(computed), computedState)
		o.ObserveFloat64(hashes, float64(waiting), waitingState)
	}, hashes)
	return s, m.Err()
}

// login counts a login with its result.
func (s metrics) login(ctx context.Context, method string, err error) {
	outcome := outcomeSuccess
	if err != nil {
		outcome = outcomeError
		for _, code := range codesOfLogins {
			if errors.Is(err, code) {
				outcome = string(code)
			}
		}

		if _, invalid := errors.AsType[api.Fields](err); invalid {
			outcome = string(wire.ValidationFailed)
		}
	}

	s.logins.Add(ctx, 1, meter.Of("method", method, "outcome", outcome))
}

// reject counts a login that the organization or its identity provider has rejected.
func (s metrics) reject(ctx context.Context, err error) {
	if errors.Is(err, wire.RateLimited) {
		s.login(ctx, byProvider, err)
		return
	}

	s.logins.Add(ctx, 1, meter.Of("method", byProvider, "outcome", outcomeRejected))
}
