package filesafe

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"path"
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
	// Reserve, if not nil, is called before a listing uses memory, with the number of bytes, and
	// after it has released memory, with a negative number. Its error is passed to Fail, or aborts a
	// response that has begun. Calls are concurrent.
	Reserve func(bytes int) error
}

// refusal is an error response to a request.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

var (
	errPath         = &refusal{http.StatusBadRequest, "Invalid path"}
	errDepth        = &refusal{http.StatusBadRequest, "Invalid depth parameter"}
	errIsFile       = &refusal{http.StatusBadRequest, "Not a directory"}
	errIsNoFile     = &refusal{http.StatusBadRequest, "Not a file"}
	errNoDirectory  = &refusal{http.StatusNotFound, "Directory not found"}
	errNoFile       = &refusal{http.StatusNotFound, "File not found"}
	errMethod       = &refusal{http.StatusMethodNotAllowed, "Method not allowed"}
	errPrecondition = &refusal{http.StatusPreconditionFailed, "Precondition failed"}
	errRange        = &refusal{http.StatusRequestedRangeNotSatisfiable, "Range not satisfiable"}
)

// allowed rejects methods other than GET and HEAD.
func allowed(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}

	w.Header().Set("Allow", "GET, HEAD")
	return errMethod
}

// requested returns the query of a request and its path.
func requested(w http.ResponseWriter, r *http.Request) (url.Values, string, error) {
	if err := allowed(w, r); err != nil {
		return nil, "", err
	}

	// The whole query must be well-formed: an invalid path is not an empty one.
	query, err := url.ParseQuery(r.URL.RawQuery)
	name := query.Get("path")
	if err != nil || !relative(name) {
		return nil, "", errPath
	}

	return query, name, nil
}

// List responds with {"path", "entries"} for a directory: path is relative to the root, and "" for
// the root; [FileEntry] and [Dir.List] describe the entries. Parameters: path; recursive ("true",
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

	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(known.status)
	_, _ = io.WriteString(w, `{"error":"`+known.message+"\"}\n") // a client that has disconnected needs no response
}

func (a *Handlers) content(w http.ResponseWriter, r *http.Request) error {
	_, name, err := requested(w, r)
	if err != nil {
		return err
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
	query, name, err := requested(w, r)
	if err != nil {
		return err
	}

	entries := lister{dir: a.Dir, ctx: r.Context(), depth: math.MaxInt, reserve: a.Reserve}
	if query.Has("depth") {
		depth, ok := number(query.Get("depth"))
		if !ok || query.Get("depth") == "" {
			return errDepth
		}

		entries.depth = int(min(depth, math.MaxInt))
	}

	name = path.Clean(name) // a.txt/ is a file here, not a missing path
	entries.byKind = query.Get("recursive") != "true"
	if name == "." {
		name = ""
	}

	shown, err := json.Marshal(name)
	if err != nil {
		return err
	}

	out := newBody(w, r, a.WriteTimeout)
	lines := json.NewEncoder(&out.text)
	lines.SetEscapeHTML(false)
	separator := ""
	out.text.WriteString(`{"path":` + string(shown) + `,"entries":[`)
	return listError(out.stream("application/json", entries.entries(name), "]}\n", func(e *FileEntry) error {
		out.text.WriteString(separator)
		separator = ","
		return lines.Encode(e.form())
	}))
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

// relative reports whether a client may use a path: not too long, without a null byte, not absolute
// on Unix or Windows, without "..".
func relative(name string) bool {
	switch {
	case checkName(name) != nil, strings.HasPrefix(name, "/"), strings.HasPrefix(name, `\\`):
		return false
	case len(name) >= 2 && name[1] == ':' && (name[0]|0x20) >= 'a' && (name[0]|0x20) <= 'z':
		return false
	}

	return !climbs(name)
}

// Handler serves the files of the directory by URL path, with ranges, conditional requests and a
// media type by extension. For a directory it responds with the names in it, one per line, with "/"
// after directories. Paths that are missing, unreadable, not a file or outside are 404. A client
// that stalls for 30 s is disconnected, as described for [Handlers]. Use [http.StripPrefix] to
// mount it below a prefix.
func (d *Dir) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := serve(d, w, r)
		if err == nil {
			return
		}

		status, message := http.StatusInternalServerError, "internal error"
		if known := (*refusal)(nil); errors.As(err, &known) {
			status, message = known.status, strings.ToLower(known.message)
		} else if missing(err) || errors.Is(err, ErrOutside) || errors.Is(err, ErrNotFile) {
			status, message = http.StatusNotFound, "not found"
		}

		http.Error(w, message, status)
	})
}

func serve(dir *Dir, w http.ResponseWriter, r *http.Request) error {
	if err := allowed(w, r); err != nil {
		return err
	}

	name := strings.TrimPrefix(r.URL.Path, "/")
	// A percent-encoded slash is not a separator, and no file name contains one.
	if !relative(name) || strings.Contains(strings.ToLower(r.URL.RawPath), "%2f") {
		return ErrOutside
	}

	out := newBody(w, r, 0)
	f, info, err := dir.open(name, false)
	if err == nil {
		defer func() { _ = f.Close() }() // it was only read
		return sendFile(out, f, info, path.Base(name), "")
	}

	if !errors.Is(err, ErrNotFile) {
		return err
	}

	err = out.stream("text/plain; charset=utf-8", dir.List(r.Context(), name), "", func(e *FileEntry) error {
		out.text.WriteString(e.Name)
		if e.Type == typeDirectory {
			out.text.WriteByte('/')
		}

		return out.text.WriteByte('\n')
	})
	if errors.Is(err, ErrNotDirectory) { // a FIFO or a device
		return ErrNotFile
	}

	return err
}
