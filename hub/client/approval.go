package client

import (
	"context"
	"iter"
	"net/http"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Approvals are the calls and questions that wait for the caller.
type Approvals struct{ c *Client }

const approvalsPath = "/api/v1/approvals"

// List yields what waits for the caller, the oldest first, with the start of what is executed.
func (a Approvals) List(ctx context.Context) iter.Seq2[wire.Approval, error] {
	return list[wire.Approval](ctx, a.c, approvalsPath, nil)
}

// Get returns what waits, with all that is executed.
func (a Approvals) Get(ctx context.Context, id string) (wire.Approval, error) {
	return get[wire.Approval](ctx, a.c, approvalsPath+"/"+segment(id), nil)
}

// Answer approves or rejects a call, or answers a question. The same answer can be sent again.
func (a Approvals) Answer(ctx context.Context, id string, answer wire.ApprovalAnswer) (wire.ApprovalResult, error) {
	r, err := jsonRequest(http.MethodPost, approvalsPath+"/"+segment(id), answer)
	if err != nil {
		return wire.ApprovalResult{}, err
	}

	r.again = true
	return decode[wire.ApprovalResult](ctx, a.c, r)
}
