package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	maxJSON    = 1 << 20  // bytes of the detail of an agent, or of an error
	maxEntry   = 64 << 10 // bytes of the JSON of a file in a listing
	maxEntries = 2 << 20  // of a listing
	firstPart  = 4 << 10  // bytes of a listing that are decoded before its headers are sent
	nextPart   = 32 << 10 // bytes of a listing that are sent together
)

// jsonValues bounds the values of a response, which are decoded in memory.
var jsonValues = jsonlimit.Limit{Values: 1 << 16}

// recode replaces the body of a response by the JSON of what is decoded of it: pages get no JSON of
// a runtime.
func recode[T any](res *http.Response) error {
	var value T
	if res.Request.Method == http.MethodHead {
		return replace(res, nil)
	}

	data, err := io.ReadAll(io.LimitReader(res.Body, maxJSON+1))
	if err == nil && len(data) > maxJSON {
		err = fmt.Errorf("it is longer than %d bytes", maxJSON)
	}

	if err == nil {
		err = jsonValues.Check(data)
	}

	if err == nil {
		err = jsonlimit.Unmarshal(data, &value)
	}

	if err != nil {
		return fmt.Errorf("decode response of runtime: %w", err)
	}

	return replace(res, value)
}

// recodeError is recode for an error response. Without an error of the runtime, the response has
// the text of its status.
func recodeError(res *http.Response) error {
	if recode[wire.ErrorBody](res) == nil {
		return nil
	}

	return replace(res, wire.ErrorBody{Error: http.StatusText(res.StatusCode)})
}

// replace replaces the body of a response by the JSON of a value.
func replace(res *http.Response, value any) error {
	_ = res.Body.Close() // it is not needed
	plain(res)
	if res.Request.Method == http.MethodHead {
		return nil
	}

	var text bytes.Buffer
	if err := encode(&text, value); err != nil {
		return err
	}

	res.Body, res.ContentLength = io.NopCloser(&text), int64(text.Len())
	res.Header.Set("Content-Length", strconv.Itoa(text.Len()))
	return nil
}

// encode appends a value and a line feed.
func encode(text *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("encode response of runtime: %w", err)
	}

	return nil
}

// plain sets the headers of JSON of the hub.
func plain(res *http.Response) {
	for _, name := range []string{"Content-Disposition", "Content-Encoding", "Content-Length", "Etag", "Last-Modified"} {
		res.Header.Del(name)
	}

	res.Header.Set("Content-Type", "application/json")
	res.ContentLength, res.Uncompressed = -1, false
}

// file is an entry of a listing.
type file struct {
	Name   string    `json:"name"`
	Type   string    `json:"type"`
	Size   int64     `json:"size"`
	Mtime  wire.Time `json:"mtime"`
	MIME   string    `json:"mime,omitempty"`
	Target string    `json:"target,omitempty"`
}

// files is the body of a listing, which is decoded and encoded again while it is read: it may be
// longer than memory. Entries that cannot be decoded are omitted.
type files struct {
	io.Closer

	stream *jsonlimit.Stream
	text   bytes.Buffer // not yet read
	after  string       // the separator before the next member or entry
	inside bool         // the array of entries
	listed bool         // the array of entries has begun
	count  int          // of entries
	err    error        // after text
}

// recodeFiles replaces the body of a listing. A response that does not begin as one is an error.
func recodeFiles(res *http.Response) error {
	if res.Request.Method == http.MethodHead {
		return replace(res, nil)
	}

	f := &files{Closer: res.Body, stream: jsonlimit.NewStream(res.Body, maxEntry)}
	f.err = f.stream.Enter('{')
	f.text.WriteByte('{')
	f.fill(firstPart)
	if f.err != nil && !errors.Is(f.err, io.EOF) {
		return fmt.Errorf("decode listing of runtime: %w", f.err)
	}

	plain(res)
	res.Body = f
	return nil
}

// Read implements io.Reader.
func (f *files) Read(p []byte) (int, error) {
	f.fill(nextPart)
	if f.text.Len() == 0 {
		return 0, f.err
	}

	return f.text.Read(p)
}

// fill reads entries until there are that many bytes of text or an error.
func (f *files) fill(size int) {
	for f.err == nil && f.text.Len() < size {
		more, err := f.stream.More()
		switch {
		case err != nil:
			f.err = err
		case !more:
			f.err = f.end()
		case f.inside:
			f.err = f.entry()
		default:
			f.err = f.member()
		}
	}
}

// end ends the array of entries, or the listing.
func (f *files) end() error {
	switch {
	case f.inside:
		f.text.WriteByte(']')
		f.inside, f.after = false, ","
		return nil
	case !f.listed:
		return errors.New("it has no entries")
	}

	f.text.WriteString("}\n")
	return io.EOF
}

// entry reads an entry.
func (f *files) entry() error {
	raw, err := f.stream.Value()
	if err != nil {
		return err
	}

	if f.count++; f.count > maxEntries {
		return jsonlimit.ErrExceeded
	}

	var one file
	if jsonlimit.Unmarshal(raw, &one) == nil && one.Name != "" {
		return f.append("", one)
	}

	return nil
}

// member reads a member of the listing.
func (f *files) member() error {
	name, err := f.stream.Name()
	if err != nil {
		return err
	}

	if name == "entries" {
		f.text.WriteString(f.after + `"entries":[`)
		f.inside, f.listed, f.after = true, true, ""
		return f.stream.Enter('[')
	}

	raw, err := f.stream.Value()
	if name != "path" || err != nil {
		return err
	}

	var path string
	if err := jsonlimit.Unmarshal(raw, &path); err != nil {
		return err
	}

	return f.append(`"path":`, path)
}

// append appends a member or an entry.
func (f *files) append(name string, value any) error {
	f.text.WriteString(f.after + name)
	f.after = ","
	return encode(&f.text, value)
}
