package filesafe_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/filesafe"
)

// filteredContent serves files by http.ServeContent with the path rules and the write deadlines of
// this package: the alternative to the conditions and ranges that send implements. It lacks two
// rules of the contract: the JSON bodies of 412 and 416, and 416 for a range of an empty file.
func filteredContent(dir *filesafe.Dir) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("path")
		f, err := dir.Open(name)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		// Several ranges, and a malformed one, are a request for the whole file.
		if header := r.Header.Get("Range"); strings.Contains(header, ",") || !strings.HasPrefix(header, "bytes=") {
			r.Header.Del("Range")
		}
		h := w.Header()
		h.Set("Etag", `"`+strconv.FormatInt(info.ModTime().UnixNano(), 36)+"-"+strconv.FormatInt(info.Size(), 36)+`"`)
		h.Set("Content-Type", "text/plain")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "private, no-cache")
		h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+name)
		http.ServeContent(deadlineWriter{w, http.NewResponseController(w)}, r, name, info.ModTime(), f)
	}
}

// deadlineWriter sets a write deadline for each MiB of a file.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w deadlineWriter) ReadFrom(r io.Reader) (sent int64, err error) {
	whole := r.(*io.LimitedReader) // of ServeContent
	part := &io.LimitedReader{R: whole.R}
	for whole.N > 0 && err == nil {
		_ = w.control.SetWriteDeadline(time.Now().Add(30 * time.Second))
		var n int64
		part.N = min(whole.N, 1<<20)
		n, err = io.Copy(w.ResponseWriter, part)
		sent, whole.N = sent+n, whole.N-n
	}
	_ = w.control.Flush()
	_ = w.control.SetWriteDeadline(time.Time{})
	return sent, err
}
