package auditlog

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Handlers serves a store over HTTP. Each of its methods is an [http.HandlerFunc] for GET and HEAD:
//
//	h := auditlog.Handlers{Store: store, Tenant: tenantOf}
//	mux.HandleFunc("GET /audit-logs", h.Query)
//	mux.HandleFunc("GET /audit-logs/export", h.Export)
//	mux.HandleFunc("GET /audit-logs/verify", h.Verify)
//
// The caller authorizes requests before. Unknown parameters are ignored, empty ones count as
// missing, and of a repeated one the first counts.
type Handlers struct {
	// Store is required.
	Store Store

	// Tenant returns the tenant of a request, which is never "". Required.
	Tenant func(*http.Request) string

	// Fail writes the response to a request that failed; nothing was written before. The error is a
	// *[ParamError] if the request is invalid. Otherwise it is an error of the store, such as a
	// *[DamagedError], or of the connection. Defaults to a plain text: 400 with the rule of the
	// parameter, 503 for a cancelled request, 500 without a reason.
	Fail func(w http.ResponseWriter, r *http.Request, err error)

	// Logger receives failed verifications, and errors of the store after the first byte of an
	// export. Defaults to none.
	Logger *slog.Logger

	// WriteTimeout is how long a client of an export may take to read 64 KiB. It replaces
	// http.Server.WriteTimeout, which bounds a response as a whole. Negative: only the latter
	// applies. Defaults to 30 s.
	WriteTimeout time.Duration
}

// errNoTenant reports that Tenant returned "".
var errNoTenant = errors.New("serve audit log: the request has no tenant")

// maxPageBytes bounds the details of a page.
const maxPageBytes = 4 << 20

// Query responds with a page of entries, newest first: {"items":[...],"total":n,"snapshotId":"n"}.
// A page with less than all older entries has "next". It ends at 4 MiB of details. HEAD encodes
// nothing. Parameters:
//
//   - cursor: the next of a former page, in place of page.
//   - page: an integer of at least 1, default 1; a page after the last one is empty.
//   - page_size: an integer of at least 1, default 20; values above 100 become 100.
//   - category, action: exact.
//   - user: a part of the user's name or id, case-insensitive for ASCII letters.
//   - from, to: RFC 3339 times, an inclusive range. A range that ends before it begins is empty.
//   - snapshotId: that of an earlier response; the newest id is the default and the maximum.
//
// Integers are plain digits; leading zeros are allowed.
func (h Handlers) Query(w http.ResponseWriter, r *http.Request) {
	page, next, err := h.query(r)
	if err != nil {
		h.fail(w, r, err)
		return
	}

	out := h.attachment(w)
	out.header = jsonHeader()
	if r.Method == http.MethodHead {
		_ = out.begin() // a lost connection gets no response
		return
	}

	if h.writePage(out, page, next) == nil {
		out.end()
	}
}

func jsonHeader() http.Header {
	return http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}
}

// writePage encodes the entries one by one.
func (h Handlers) writePage(out io.Writer, page Page, next uint64) error {
	b := bufio.NewWriterSize(out, exportPiece)
	_, _ = b.WriteString(`{"items":[`) // an error is returned again by the next write
	for i := range page.Items {
		if i > 0 {
			_ = b.WriteByte(',')
		}

		text, err := page.Items[i].marshal("")
		if err != nil {
			return fmt.Errorf("encode audit entry: %w", err)
		}

		_, _ = b.Write(text)
	}

	fmt.Fprintf(b, `],"total":%d,"snapshotId":"%d"`, page.Total, page.Snapshot)
	if next > 0 {
		fmt.Fprintf(b, `,"next":"%d"`, next)
	}

	_, _ = b.WriteString("}\n")
	return b.Flush()
}

// Verify responds with the [Verification] of the whole log, which it reads from the first entry to
// the last. It takes one parameter: head, a head that was recorded earlier, as "<id>:<hash>" with
// the hash in hexadecimal. A verification that fails has status 200 and "ok": false, and is logged
// as an error.
func (h Handlers) Verify(w http.ResponseWriter, r *http.Request) {
	v, err := h.verify(r)
	h.respond(w, r, v, err)
}

func (h Handlers) verify(r *http.Request) (Verification, error) {
	tenant := h.Tenant(r)
	if tenant == "" {
		return Verification{}, errNoTenant
	}

	p, err := readParams(r)
	if err != nil {
		return Verification{}, err
	}

	head, err := p.head()
	if err != nil {
		return Verification{}, err
	}

	v, err := Verify(r.Context(), h.Store, tenant, head)
	if err == nil && !v.OK {
		h.logger().ErrorContext(r.Context(), "audit log failed its verification",
			"tenant", tenant, "reason", v.Reason, "first_bad_id", v.FirstBadID, "head_id", v.HeadID, "given_head_id", head.ID)
	}

	return v, err
}

// query returns a page, and the cursor of the next one, or 0.
func (h Handlers) query(r *http.Request) (Page, uint64, error) {
	q, p, err := h.read(r)
	if err != nil {
		return Page{}, 0, err
	}

	if q.Offset, q.Limit, err = p.page(); err != nil {
		return Page{}, 0, err
	}

	q.Bytes = maxPageBytes
	page, err := h.Store.Query(r.Context(), q)
	var next uint64
	if end := q.Offset + uint64(len(page.Items)); len(page.Items) > 0 && end < page.Total {
		next = end
	}

	return page, next, err
}

// read reads the parameters that queries and exports have in common.
func (h Handlers) read(r *http.Request) (Query, params, error) {
	var q Query
	if q.TenantID = h.Tenant(r); q.TenantID == "" {
		return q, nil, errNoTenant
	}

	p, err := readParams(r)
	if err != nil {
		return q, nil, err
	}

	if q.Filter, err = p.filter(); err != nil {
		return q, nil, err
	}

	q.Snapshot, err = p.id("snapshotId")
	return q, p, err
}

func (h Handlers) respond(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		h.fail(w, r, err)
		return
	}

	body, err := json.Marshal(v)
	if err != nil {
		h.fail(w, r, fmt.Errorf("encode response: %w", err))
		return
	}

	out := h.attachment(w)
	out.header = jsonHeader()
	if _, err := out.Write(append(body, '\n')); err == nil { // a lost connection gets no response
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
