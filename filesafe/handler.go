package filesafe

import (
	"bufio"
	"errors"
	"net/http"
	"path"
	"strings"
)

// Handler serves the files of dir by URL path, with ranges, conditional requests and a media type
// by extension. For a directory it responds with the names in it, one per line, with "/" after
// directories. Paths that are missing, unreadable, not a file or outside are 404. A client that
// stalls for 30 s is disconnected, as described for [Handlers]. Use [http.StripPrefix] to mount it
// below a prefix.
func Handler(dir *Dir) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := serve(dir, w, r)
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
	f, info, err := dir.open(name, false)
	if errors.Is(err, ErrNotFile) {
		return serveNames(dir, w, r, name)
	} else if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return sendFile(newBody(w, r, 0), f, info, path.Base(name), "")
}

func serveNames(dir *Dir, w http.ResponseWriter, r *http.Request, name string) error {
	sent := false
	out := newBody(w, r, 0)
	text := bufio.NewWriterSize(out, chunk)
	header := func() {
		sent = true
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
	}
	for e, err := range dir.List(r.Context(), name) {
		if errors.Is(err, ErrNotDirectory) { // a FIFO or a device
			return ErrNotFile
		} else if err != nil && !sent {
			return err
		}
		if !sent {
			header()
		}
		if r.Method == http.MethodHead && err == nil {
			break
		}
		line := e.Name + "\n"
		if e.Type == TypeDirectory {
			line = e.Name + "/\n"
		}
		if err == nil {
			_, err = text.WriteString(line)
		}
		if err != nil { // an incomplete response must not be well-formed
			panic(http.ErrAbortHandler)
		}
	}
	if !sent {
		header()
	}
	if text.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	out.end()
	return nil
}
