package filesafe

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// refusal is an answer to a request that cannot be served.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

var (
	errPrecondition = &refusal{http.StatusPreconditionFailed, "Precondition failed"}
	errRange        = &refusal{http.StatusRequestedRangeNotSatisfiable, "Range not satisfiable"}
	errMethod       = &refusal{http.StatusMethodNotAllowed, "Method not allowed"}
)

// allowed refuses methods other than GET and HEAD.
func allowed(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	w.Header().Set("Allow", "GET, HEAD")
	return errMethod
}

// send answers with the content of an open file, or the part of it that was asked for. It has written nothing when it
// answers an error.
func send(p *pace, f *os.File, info fs.FileInfo, name, disposition string) error {
	w, r := p.w, p.r
	size, modified := info.Size(), info.ModTime()
	// Strong, as If-Range needs it: a change keeps neither size nor the time in nanoseconds.
	etag := `"` + strconv.FormatInt(modified.UnixNano(), 36) + "-" + strconv.FormatInt(size, 36) + `"`
	v := version{etag, modified.Truncate(time.Second)}
	status := v.precondition(r.Header)
	if status == http.StatusPreconditionFailed {
		return errPrecondition
	}
	part := span{0, size}
	if ranges := r.Header["Range"]; status == http.StatusOK && len(ranges) == 1 && v.rangeHolds(r.Header) {
		asked, counts, satisfiable := parseRange(ranges[0], size)
		if counts && !satisfiable {
			w.Header().Set("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
			return errRange
		}
		if counts {
			status, part = http.StatusPartialContent, asked
		}
	}
	if part.start > 0 && r.Method != http.MethodHead {
		if _, err := f.Seek(part.start, io.SeekStart); err != nil {
			return fmt.Errorf("seek in file: %w", err)
		}
	}
	h := newFields(w)
	h.set("Etag", etag)
	h.set("Last-Modified", modified.UTC().Format(http.TimeFormat))
	h.set("Accept-Ranges", "bytes")
	h.set("X-Content-Type-Options", "nosniff")
	if status == http.StatusNotModified {
		w.WriteHeader(status)
		return nil
	}
	h.set("Content-Type", mimeOf(name))
	h.set("Content-Length", strconv.FormatInt(part.length, 10))
	if disposition != "" {
		h.set("Content-Disposition", disposition)
	}
	if status == http.StatusPartialContent {
		h.set("Content-Range", part.of(size))
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead && part.length > 0 {
		copyBody(p, f, part.length)
	}
	return nil
}

// small is up to where one read and one write cost less than sendfile(2), to which net/http adds a read and a write of its
// own. In bytes.
const small = 16 << 10

var smallBodies = sync.Pool{New: func() any { return new([small]byte) }}

// copyBody sends length bytes. Of a file that grows it sends what was promised. One that shrinks, and a client that leaves,
// are told by the length: net/http closes the connection.
func copyBody(p *pace, f *os.File, length int64) {
	var err error
	if length > small {
		err = p.copyFile(f, length)
	} else {
		buf := smallBodies.Get().(*[small]byte)
		n, _ := io.ReadFull(f, buf[:length])
		_, err = p.Write(buf[:n])
		smallBodies.Put(buf)
	}
	if err == nil {
		p.end()
	}
}

// fields sets header fields by their canonical names, with one allocation for all.
type fields struct {
	header http.Header
	values []string
}

func newFields(w http.ResponseWriter) fields { return fields{w.Header(), make([]string, 0, 8)} }

func (f *fields) set(name, value string) {
	n := len(f.values)
	f.values = append(f.values, value)
	f.header[name] = f.values[n : n+1 : n+1]
}

// attachment makes a Content-Disposition of a name by RFC 5987.
func attachment(name string) string {
	const hex = "0123456789ABCDEF"
	if !utf8.ValidString(name) {
		name = strings.ToValidUTF8(name, "\uFFFD")
	}
	b := make([]byte, 0, 64)
	b = append(b, "attachment; filename*=UTF-8''"...)
	for i := range len(name) {
		if c := name[i]; attrChar[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

// attrChar holds the characters that RFC 5987 lets stand for themselves.
var attrChar = func() (set [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&+-.^_`|~") {
		set[c] = true
	}
	return set
}()
