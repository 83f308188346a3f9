package auditlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Handlers serve one store over HTTP; each method is an [http.HandlerFunc] for GET and HEAD, to be mounted anywhere:
//
//	h := auditlog.Handlers{Store: store, Tenant: tenantOf}
//	mux.HandleFunc("GET /audit-logs", h.Query)
//	mux.HandleFunc("GET /audit-logs/export", h.Export)
//	mux.HandleFunc("GET /audit-logs/verify", h.Verify)
//
// Who may call them is for the caller to decide before. Parameters that a handler does not know are ignored, empty ones count as
// missing, and of one that is given twice the first counts.
type Handlers struct {
	// Store is what is served. Required.
	Store Store

	// Tenant tells whose log a request is about, and never "". Required.
	Tenant func(*http.Request) string

	// Fail answers a request that cannot be answered otherwise; nothing was written before. The error is a *[ParamError] where the
	// client is at fault, and of the store, such as a *[DamagedError], or the client's connection where not. Defaults to a plain text: 400 with the
	// rule that was broken, 503 for a request that was cancelled, 500 without a reason.
	Fail func(w http.ResponseWriter, r *http.Request, err error)

	// Logger is told of exports that the store broke off after their first byte. Defaults to none.
	Logger *slog.Logger

	// Stall is how long a client of an export may take for 32 KiB, where the server has write deadlines. Defaults to 30 s.
	Stall time.Duration
}

// errNoTenant is a fault of whoever wrote Tenant.
var errNoTenant = errors.New("serve audit log: the request has no tenant")

// Query answers a page of entries, newest first, as {"items":[...],"total":n,"snapshotId":"n"}. Parameters:
//
//   - page: an integer of at least 1, default 1; a page beyond the last is empty.
//   - page_size: an integer of at least 1, default 20; above 100 it is 100.
//   - category, action: exactly.
//   - user: a part of the user's name or id, ASCII letters without regard to case.
//   - from, to: RFC 3339 times; both belong to the range. A range that ends before it begins is empty.
//   - snapshotId: the view, as an earlier answer told it; cut down to the last id, which is also the default.
//
// Integers are plain digits, of which leading ones may be 0.
func (h Handlers) Query(w http.ResponseWriter, r *http.Request) {
	body, err := h.query(r)
	h.answer(w, r, body, err)
}

// Verify answers with the [Verification] of the whole log. It reads all of it.
func (h Handlers) Verify(w http.ResponseWriter, r *http.Request) {
	tenant := h.Tenant(r)
	if tenant == "" {
		h.fail(w, r, errNoTenant)
		return
	}
	v, err := Verify(r.Context(), h.Store, tenant)
	h.answer(w, r, v, err)
}

func (h Handlers) query(r *http.Request) (Page, error) {
	q, p, err := h.read(r)
	if err != nil {
		return Page{}, err
	}
	if q.Offset, q.Limit, err = p.page(); err != nil {
		return Page{}, err
	}
	page, err := h.Store.Query(r.Context(), q)
	if page.Items == nil {
		page.Items = []Entry{}
	}
	return page, err
}

// read reads what queries and exports have in common.
func (h Handlers) read(r *http.Request) (q Query, p params, err error) {
	if q.TenantID = h.Tenant(r); q.TenantID == "" {
		return q, nil, errNoTenant
	}
	if p, err = readParams(r); err != nil {
		return q, nil, err
	}
	if q.Filter, err = p.filter(); err != nil {
		return q, nil, err
	}
	q.Snapshot, err = p.snapshot()
	return q, p, err
}

func (h Handlers) answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		h.fail(w, r, err)
		return
	}
	body, err := json.Marshal(v)
	if err != nil {
		h.fail(w, r, fmt.Errorf("encode answer: %w", err))
		return
	}
	out := h.attachment(w)
	out.header = http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}
	if _, err := out.Write(append(body, '\n')); err == nil { // a client that is gone is told nothing
		out.end()
	}
}

func (h Handlers) fail(w http.ResponseWriter, r *http.Request, err error) {
	if h.Fail != nil {
		h.Fail(w, r, err)
		return
	}
	text, status := "internal error", http.StatusInternalServerError
	var wrong *ParamError
	switch {
	case errors.As(err, &wrong):
		text, status = wrong.Error(), http.StatusBadRequest
	case r.Context().Err() != nil:
		text, status = "cancelled", http.StatusServiceUnavailable
	}
	http.Error(w, text, status)
}

func (h Handlers) logger() *slog.Logger {
	return cmp.Or(h.Logger, slog.New(slog.DiscardHandler))
}
