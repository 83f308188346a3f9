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

// API is the files interface of the agent runtime: two handlers, which the caller mounts where it likes. They take their
// parameters from the query and serve GET and HEAD. A refusal is {"error": message} with the contract's words.
//
// A path from a client is held to more than one of [Dir]: it may be neither absolute nor have ".." in it, even where that
// would lead back inside.
type API struct {
	Dir *Dir
	// Fail answers an internal fault, of which the client must not be told. Nothing has been written before.
	// Defaults to 500 with {"error":"Internal error"}.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	// WriteTimeout is how long a client may take nothing of an answer before the connection is closed. However slow, one
	// that takes 64 KiB in that time goes on. It holds in the place of http.Server.WriteTimeout, which bounds a download
	// as a whole. Negative: the server's alone. Defaults to 30 s.
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

// List answers {"path", "entries"} of a directory: path is the directory relative to the root, or "" for it, and entries
// are as [Entry] and [Dir.List] say. Parameters: path; recursive ("true" or anything else); depth, the levels of
// subdirectories to go into, which counts only with recursive=true. The answer is streamed, and ends when the client leaves.
func (a *API) List(w http.ResponseWriter, r *http.Request) {
	a.answer(w, r, a.list(w, r))
}

// Content answers the bytes of the file at the parameter path, as an attachment, with a strong ETag of size and time. One
// range is served with 206; several, or one that is malformed, are ignored. Conditions of RFC 9110 are held.
func (a *API) Content(w http.ResponseWriter, r *http.Request) {
	a.answer(w, r, a.content(w, r))
}

func (a *API) answer(w http.ResponseWriter, r *http.Request, err error) {
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
	_, _ = w.Write(body) // a client that is gone needs no answer
}

func (a *API) content(w http.ResponseWriter, r *http.Request) error {
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
	return send(newPace(w, r, a.WriteTimeout), f, info, base, attachment(base))
}

func (a *API) list(w http.ResponseWriter, r *http.Request) error {
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
	name = path.Clean(name) // a.txt/ is a file here, not something missing
	entries := a.Dir.List(r.Context(), name)
	if recursive == "true" {
		entries = a.Dir.Walk(r.Context(), name, levels)
	}
	out := newListing(newPace(w, r, a.WriteTimeout), name)
	for e, err := range entries {
		if err != nil && !out.sent && r.Context().Err() == nil {
			return listError(err)
		}
		if err == nil && r.Method == http.MethodHead {
			break
		}
		// The client is gone, or something broke half way: the answer must not look whole.
		if err != nil || !out.add(&e) {
			panic(http.ErrAbortHandler)
		}
	}
	if r.Method == http.MethodHead { // without the length, for which the whole would have to be made
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

// parameter answers the first value of a name in the query. The query must be well-formed as a whole: a path that cannot
// be read is not the empty one. url.ParseQuery says the same, with a map for all of them.
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

// relative says whether a client may name this path: no null byte, not absolute on Unix or Windows, no "..".
func relative(name string) bool {
	switch {
	case strings.IndexByte(name, 0) >= 0, strings.HasPrefix(name, "/"), strings.HasPrefix(name, `\\`):
		return false
	case len(name) >= 2 && name[1] == ':' && (name[0]|0x20) >= 'a' && (name[0]|0x20) <= 'z':
		return false
	}
	return !climbs(name)
}
