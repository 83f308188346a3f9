package filesafe

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// Handlers is the files interface of the agent runtime. The caller mounts its two handlers. They
// read their parameters from the query and accept GET and HEAD. Errors are {"error": message} with
// the messages of the contract.
//
// Paths of clients are restricted further than paths of [Dir]: they must not be absolute or contain
// "..", even if the file is inside.
type Handlers struct {
	Dir *Dir
	// Fail responds to an internal error, which the client must not see. Nothing has been written
	// before. Defaults to 500 with {"error":"Internal error"}.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	// WriteTimeout is how long a client may take to read 64 KiB before the connection is closed. It
	// replaces http.Server.WriteTimeout, which bounds a download as a whole. Negative: only the
	// latter applies. Defaults to 30 s.
	WriteTimeout time.Duration
}

var (
	errPath        = &refusal{http.StatusBadRequest, "Invalid path"}
	errDepth       = &refusal{http.StatusBadRequest, "Invalid depth parameter"}
	errIsFile      = &refusal{http.StatusBadRequest, "Not a directory"}
	errIsNoFile    = &refusal{http.StatusBadRequest, "Not a file"}
	errNoDirectory = &refusal{http.StatusNotFound, "Directory not found"}
	errNoFile      = &refusal{http.StatusNotFound, "File not found"}
)

// List responds with {"path", "entries"} for a directory: path is relative to the root, and "" for
// the root; [Entry] and [Dir.List] describe the entries. Parameters: path; recursive ("true",
// anything else is false); depth, the number of levels of subdirectories, which applies only with
// recursive=true. The response is streamed and ends when the client disconnects.
func (a *Handlers) List(w http.ResponseWriter, r *http.Request) {
	a.respond(w, r, a.list(w, r))
}

// Content responds with the file at the parameter path, as an attachment with a strong ETag of size
// and time. One range is served with 206; several ranges and malformed ones are ignored. The
// conditions of RFC 9110 are supported.
func (a *Handlers) Content(w http.ResponseWriter, r *http.Request) {
	a.respond(w, r, a.content(w, r))
}

func (a *Handlers) respond(w http.ResponseWriter, r *http.Request, err error) {
	if err == nil {
		return
	}
	var known *refusal
	if !errors.As(err, &known) {
		if a.Fail != nil {
			a.Fail(w, r, err)
			return
		}
		known = &refusal{http.StatusInternalServerError, "Internal error"}
	}
	body := append(appendString([]byte(`{"error":`), known.message), "}\n"...)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(known.status)
	_, _ = w.Write(body) // a client that has disconnected needs no response
}

func (a *Handlers) content(w http.ResponseWriter, r *http.Request) error {
	if err := allowed(w, r); err != nil {
		return err
	}
	name, _, ok := parameter(r, "path")
	if !ok || !relative(name) {
		return errPath
	}
	f, info, err := a.Dir.open(name, false)
	switch {
	case errors.Is(err, ErrOutside):
		return errPath
	case errors.Is(err, ErrNotFile):
		return errIsNoFile
	case missing(err):
		return errNoFile
	case err != nil:
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	base := path.Base(name)
	return sendFile(newBody(w, r, a.WriteTimeout), f, info, base, attachment(base))
}

func (a *Handlers) list(w http.ResponseWriter, r *http.Request) error {
	if err := allowed(w, r); err != nil {
		return err
	}
	name, _, ok := parameter(r, "path")
	if !ok || !relative(name) {
		return errPath
	}
	levels := math.MaxInt
	if text, present, _ := parameter(r, "depth"); present {
		depth, ok := number(text)
		if !ok || text == "" {
			return errDepth
		}
		levels = int(min(depth, math.MaxInt))
	}
	recursive, _, _ := parameter(r, "recursive")
	name = path.Clean(name) // a.txt/ is a file here, not a missing path
	entries := a.Dir.List(r.Context(), name)
	if recursive == "true" {
		entries = a.Dir.Walk(r.Context(), name, levels)
	}
	out := newListing(newBody(w, r, a.WriteTimeout), name)
	for e, err := range entries {
		if err != nil && !out.sent && r.Context().Err() == nil {
			return listError(err)
		}
		if err == nil && r.Method == http.MethodHead {
			break
		}
		// The client has disconnected or the directory cannot be read further: the response must
		// not be well-formed.
		if err != nil || !out.add(&e) {
			panic(http.ErrAbortHandler)
		}
	}
	if r.Method == http.MethodHead { // without the length, which would require the whole listing
		out.header()
		return nil
	}
	if !out.end() {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func listError(err error) error {
	switch {
	case errors.Is(err, ErrOutside):
		return errPath
	case errors.Is(err, ErrNotDirectory):
		return errIsFile
	case missing(err):
		return errNoDirectory
	}
	return err
}

// parameter returns the first value of a name in the query. The whole query must be well-formed: an
// invalid path is not an empty one. It is url.ParseQuery without the map.
func parameter(r *http.Request, name string) (value string, present, ok bool) {
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		key, text, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err == nil {
			text, err = url.QueryUnescape(text)
		}
		if err != nil || strings.IndexByte(pair, ';') >= 0 {
			return "", false, false
		}
		if key == name && !present {
			value, present = text, true
		}
	}
	return value, present, true
}

// relative reports whether a client may use a path: without a null byte, not absolute on Unix or
// Windows, without "..".
func relative(name string) bool {
	switch {
	case strings.IndexByte(name, 0) >= 0, strings.HasPrefix(name, "/"), strings.HasPrefix(name, `\\`):
		return false
	case len(name) >= 2 && name[1] == ':' && (name[0]|0x20) >= 'a' && (name[0]|0x20) <= 'z':
		return false
	}
	return !climbs(name)
}
