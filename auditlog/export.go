package auditlog

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	exportPiece = 32 << 10 // bytes that are sent at once
	stall       = 30 * time.Second
)

// Export streams entries, oldest first as the chain goes, with their hash in hexadecimal. It takes the parameters of
// [Handlers.Query] but for the pages, and format: ndjson, the default, which is an entry's JSON a line, or csv, a line of
// names and then an entry a line. A CSV field that a spreadsheet would take for a formula, and one that begins with ',
// has a ' put before it.
//
// The headers of the answer say what is in it: Audit-Snapshot-Id, and where older entries were pruned Audit-Checkpoint,
// the id and the hash that the first entry follows ("17 9f86..."). An export without filters can be checked against its own
// hashes, and with the id and hash of its last entry against [Verification]. An export that cannot be ended, or during
// which entries were pruned, breaks the connection, so that a part of it is never taken for the whole.
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
			h.logger().ErrorContext(r.Context(), "audit export broke off", "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}

func (h Handlers) export(out *attachment, r *http.Request) error {
	q, p, err := h.read(r)
	if err != nil {
		return err
	}
	encode, known := formatOf(p["format"])
	if !known {
		return &ParamError{Param: "format", Want: "must be ndjson or csv"}
	}
	checkpoint, err := h.Store.Checkpoint(r.Context(), q.TenantID)
	if err != nil {
		return err
	}
	head, err := h.Store.Head(r.Context(), q.TenantID)
	if err != nil {
		return err
	}
	// From here on the view is fixed: what is appended meanwhile is not in it.
	view := q.View(head.ID)
	out.header = headerOf(encode, view, checkpoint)
	if r.Method == http.MethodHead {
		return out.begin()
	}
	b := bufio.NewWriterSize(out, exportPiece)
	_, _ = b.WriteString(encode.first) // what fails here fails again at the next write
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
	if err := h.whole(r, q.TenantID, checkpoint); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	return out.begin() // also where it is empty
}

// errPruned ends an export that may lack entries in its middle.
var errPruned = errors.New("entries were pruned while the log was exported: export it again")

// whole returns an error when entries were pruned since the export began.
func (h Handlers) whole(r *http.Request, tenantID string, since Head) error {
	now, err := h.Store.Checkpoint(r.Context(), tenantID)
	if err == nil && now.ID != since.ID {
		err = errPruned
	}
	return err
}

// format is how an export is written.
type format struct {
	mime, suffix string
	first        string // what stands before the entries
	append       func(e Entry, b []byte) ([]byte, error)
}

func formatOf(name string) (f format, known bool) {
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

// attachment is the body of an answer: its headers are set when its first byte is there to be sent, because until then it
// can still become an error. Each piece has a deadline of its own.
type attachment struct {
	w       http.ResponseWriter
	control *http.ResponseController
	header  http.Header
	stall   time.Duration
	begun   bool
	err     error // of the connection
}

func (h Handlers) attachment(w http.ResponseWriter) *attachment {
	return &attachment{w: w, control: http.NewResponseController(w), stall: cmp.Or(h.Stall, stall)}
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
	n := 0
	for piece := range slices.Chunk(b, exportPiece) {
		_ = a.control.SetWriteDeadline(time.Now().Add(a.stall)) // a writer that has none is no connection
		var m int
		m, a.err = a.w.Write(piece)
		if n += m; a.err != nil {
			return n, a.err
		}
	}
	return n, nil
}

// end lifts the deadline for what comes next on the connection, once all is sent.
func (a *attachment) end() {
	if a.control.Flush() == nil {
		_ = a.control.SetWriteDeadline(time.Time{}) // it was set before
	}
}
