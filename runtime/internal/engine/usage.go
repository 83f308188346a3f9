package engine

import (
	"errors"
	"net/http"
	"sync"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// spending are the tokens of a run and of its subagents.
type spending struct {
	model string // of the run

	mu     sync.Mutex // guards the fields below
	total  wire.Usage
	others map[string]wire.Usage // of subagents with other models
}

// spend counts the tokens of a call of the model, also for the run that called this subagent.
func (r *runState) spend(u wire.Usage) {
	r.outcome.Usage = r.outcome.Usage.Add(u)
	s, name := r.spent, r.engine.cfg.Request.Model
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = s.total.Add(u)
	if name == s.model {
		return
	}

	if s.others == nil {
		s.others = map[string]wire.Usage{}
	}

	s.others[name] = s.others[name].Add(u)
}

// usage returns the tokens of a call with its response, or the beginning of it, and its error.
// Every call ends here. What upstream has not counted is estimated from the request and from what
// was received. Of an incomplete response, the larger of both counts.
func (c *modelCall) usage(response *collect.Response, err error) model.Usage {
	u, received := response.Usage, c.response.EstimateTokens()
	if c.request == nil || received == 0 && u == (model.Usage{}) && rejected(err) {
		return u
	}

	u.Estimated = u.Estimated || response.StopReason == ""
	if u.Estimated || u.Input() == 0 {
		u.Estimated = true
		u.InputTokens += max(0, estimateRequest(c.request)-u.Input())
	}

	if u.Estimated || u.OutputTokens == 0 {
		u.Estimated = u.Estimated || received > 0
		u.OutputTokens = max(u.OutputTokens, received)
	}

	return u
}

// estimateRequest estimates the input tokens of a request.
func estimateRequest(req *model.Request) int64 {
	n := collect.EstimateTokens(req.System) + estimateAll(req.Messages) + collect.EstimateTokens(req.OutputSchema)
	for i := range req.Tools {
		t := &req.Tools[i]
		n += collect.EstimateTokens(t.Name) + collect.EstimateTokens(t.Description) + collect.EstimateTokens(t.InputSchema)
	}

	return n
}

// rejected reports whether upstream has not processed a request: it was not sent, or the response
// was an error. A gateway with status 502 or 504 may have called a model.
func rejected(err error) bool {
	if errors.Is(err, model.ErrUnsent) {
		return true
	}

	upstream, ok := errors.AsType[*model.Error](err)
	if !ok {
		return false
	}

	switch upstream.Code {
	case runvalue.ErrorTypeRateLimit, runvalue.ErrorTypeAuth, runvalue.ErrorTypePromptTooLong, runvalue.ErrorTypeInvalidRequest:
		return true
	case runvalue.ErrorTypeOverloaded:
		return upstream.Status != 0 // otherwise it is the runtime that lacks memory
	}

	gateway := upstream.Status == http.StatusBadGateway || upstream.Status == http.StatusGatewayTimeout
	return upstream.Status >= http.StatusBadRequest && !gateway
}
