package auditlog

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"github.com/seed93082962/agenthost/internal/leaf/deadline"
)

// exportPiece is how many bytes of an export are written together.
const exportPiece = 32 << 10

// Export streams entries with their hexadecimal hashes, oldest first. It has the parameters of
// [Handlers.Query] except for page and page_size, and two more. format: ndjson (the default) is one
// JSON object for each line, csv is a header line and one entry for each line. A CSV field that a
// spreadsheet would run as a formula, or that begins with ', is prefixed with '. With bom=true, a
// byte order mark precedes CSV, by which spreadsheets recognize UTF-8. afterId: only
// entries with larger ids, so that an export continues an earlier one after its last entry.
//
// The response has the header Audit-Snapshot-Id and, if older entries were pruned,
// Audit-Checkpoint: the id and the hash that the first entry follows ("17 9f86..."). An export
// without filters can be verified by its own hashes, and the id and hash of its last entry by
// [Verification]. If the export fails, or entries are pruned during it, the connection is closed,
// so that a client does not mistake a part for the whole.
func (h Handlers) Export(w http.ResponseWriter, r *http.Request) {
	out := h.attachment(w)
	err := h.export(out, r)
	switch {
	case err == nil:
		out.end()
	case !out.begun:
		h.fail(w, r, err)
	default:
		if out.err == nil && r.Context().Err() == nil {
			h.logger().ErrorContext(r.Context(), "export audit log", "err", err)
		}

		panic(http.ErrAbortHandler)
	}
}

func (h Handlers) export(out *attachment, r *http.Request) error {
	q, p, err := h.read(r)
	if err != nil {
		return err
	}

	after, err := p.id("afterId")
	if err != nil {
		return err
	}

	if after != nil {
		q.AfterID = *after
	}

	encode, known := formatOf(p["format"])
	if !known {
		return &ParamError{Param: "format", Want: "must be ndjson or csv"}
	}

	if p["bom"] == "true" && encode.suffix == "csv" {
		encode.first = byteOrderMark + encode.first
	}

	checkpoint, err := h.Store.Checkpoint(r.Context(), q.TenantID)
	if err != nil {
		return err
	}

	head, err := h.Store.Head(r.Context(), q.TenantID)
	if err != nil {
		return err
	}

	// Entries that are appended later are not part of the view.
	view := head.ID
	if q.Snapshot != nil {
		view = min(view, *q.Snapshot)
	}

	out.header = headerOf(encode, view, checkpoint)
	if r.Method == http.MethodHead {
		return out.begin()
	}

	b := bufio.NewWriterSize(out, exportPiece)
	_, _ = b.WriteString(encode.first) // an error is returned again by the next write
	var line []byte
	for e, err := range h.Store.Entries(r.Context(), q.TenantID, q.Filter, &view) {
		if err != nil {
			return err
		}

		if line, err = encode.append(e, line[:0]); err != nil {
			return err
		}

		if _, err := b.Write(line); err != nil {
			return err
		}
	}

	if err := h.checkPruned(r, q.TenantID, checkpoint); err != nil {
		return err
	}

	if err := b.Flush(); err != nil {
		return err
	}

	return out.begin() // also for an empty export
}

// errPruned ends an export in whose middle entries may be missing.
var errPruned = errors.New("entries were pruned during the export: export the log again")

// checkPruned returns an error if entries were pruned since the export began.
func (h Handlers) checkPruned(r *http.Request, tenantID string, since Head) error {
	now, err := h.Store.Checkpoint(r.Context(), tenantID)
	if err == nil && now.ID != since.ID {
		err = errPruned
	}

	return err
}

// format is a format of exports.
type format struct {
	mime, suffix string
	first        string // written before the entries
	append       func(e Entry, b []byte) ([]byte, error)
}

func formatOf(name string) (format, bool) {
	switch name {
	case "", "ndjson":
		return format{mime: "application/x-ndjson", suffix: "ndjson", append: Entry.AppendNDJSON}, true
	case "csv":
		return format{mime: "text/csv; charset=utf-8; header=present", suffix: "csv", first: csvFirst, append: Entry.appendCSV}, true
	}

	return format{}, false
}

func headerOf(f format, view uint64, checkpoint Head) http.Header {
	id := strconv.FormatUint(view, 10)
	header := http.Header{
		"Content-Type":           {f.mime},
		"Content-Disposition":    {`attachment; filename="audit-log-` + id + "." + f.suffix + `"`},
		"Cache-Control":          {"no-store"},
		"X-Content-Type-Options": {"nosniff"},
		"Audit-Snapshot-Id":      {id},
	}
	if checkpoint.ID > 0 {
		header.Set("Audit-Checkpoint", fmt.Sprintf("%d %x", checkpoint.ID, checkpoint.Hash))
	}

	return header
}

// attachment is the body of a response. Its headers are set before its first byte: until then the
// response can still become an error.
type attachment struct {
	deadline.Writer
	w      http.ResponseWriter
	header http.Header
	begun  bool
	err    error // of the connection
}

func (h Handlers) attachment(w http.ResponseWriter) *attachment {
	return &attachment{Writer: deadline.NewWriter(w, h.WriteTimeout), w: w}
}

func (a *attachment) begin() error {
	if !a.begun {
		a.begun = true
		maps.Copy(a.w.Header(), a.header)
		a.w.WriteHeader(http.StatusOK)
	}

	return a.err
}

func (a *attachment) Write(b []byte) (int, error) {
	if err := a.begin(); err != nil {
		return 0, err
	}

	var n int
	n, a.err = a.Writer.Write(b)
	return n, a.err
}

// end removes the deadline after everything is sent.
func (a *attachment) end() {
	if a.Flush() == nil {
		_ = a.Clear() // it was set before
	}
}
