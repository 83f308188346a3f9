package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/model"
)

// body is the JSON of one request. A conversation may have megabytes, and net/http keeps a request
// until its response ends: the bytes are released as soon as they are sent.
type body struct {
	head []byte      // the brace and the tools, shared by many requests
	read atomic.Bool // whether the transport has begun to send it

	mu   sync.Mutex
	data []byte // the rest, guarded by mu; nil after the response has begun
}

// toolField has the JSON of the tools that were offered last, which are usually the same in each
// call. Checking and copying their schemas would take longer than the rest of a request. It is
// immutable.
type toolField struct {
	tools   []model.Tool
	json    []byte                        // "" if no tool can be offered
	renamed map[string]*toolschema.Fitted // of the tools whose properties have other names upstream
}

// encodeBody returns the JSON of a request with the fields of Config.Body and the tools. A tool
// whose input is not an object is left out: its schema would fail the request.
func (c *Client) encodeBody(request any, tools []model.Tool) (*body, map[string]*toolschema.Fitted, error) {
	data, err := encode(request)
	if err == nil && len(c.body) > 0 {
		var all map[string]json.RawMessage
		if err = json.Unmarshal(data, &all); err == nil {
			maps.Copy(all, c.body)
			maps.DeleteFunc(all, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
			data, err = encode(all)
		}
	}

	if err != nil || len(tools) == 0 {
		return &body{data: data}, nil, err
	}

	same := func(a, b model.Tool) bool { // fast for tools that share their texts
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
	}
	last := c.tools.Load()
	if last == nil || !slices.EqualFunc(last.tools, tools, same) {
		last = &toolField{tools: slices.Clone(tools), renamed: map[string]*toolschema.Fitted{}}
		var offered []model.Tool
		for _, t := range tools {
			schema, err := toolschema.Fit(t.InputSchema)
			if err != nil {
				continue
			}

			if schema.Renamed() {
				last.renamed[t.Name] = &schema
			}

			t.InputSchema = schema.JSON
			offered = append(offered, t)
		}

		if len(offered) > 0 {
			list, err := encode(c.list(offered))
			if err != nil {
				return nil, nil, err
			}

			last.json = fmt.Appendf(nil, `{"tools":%s,`, list)
		}

		c.tools.Store(last)
	}

	if len(last.json) > 0 {
		data = data[len("{"):]
	}

	return &body{head: last.json, data: data}, last.renamed, nil
}

// encode does not escape < > &: source code would become much longer.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), err
}

// smallBody is the size of a body that is stored until its response ends, because net/http sends it
// in one packet with the header: it does not wait for a reader of the package bytes.
const smallBody = 512

// open returns a new reader from the start, for http.Request.GetBody.
func (b *body) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data == nil {
		return nil, errReleased
	}

	if len(b.head)+len(b.data) <= smallBody {
		return io.NopCloser(bytes.NewReader(slices.Concat(b.head, b.data))), nil
	}

	return &bodyReader{body: b, parts: net.Buffers{b.head, b.data}}, nil
}

// bodyReader reads a body, and releases each part that was read.
type bodyReader struct {
	body  *body
	parts net.Buffers
}

// Read implements io.Reader.
func (r *bodyReader) Read(p []byte) (int, error) {
	r.body.read.Store(true)
	return r.parts.Read(p)
}

// Close implements io.Closer.
func (*bodyReader) Close() error { return nil }

func (b *body) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.head) + len(b.data))
}

// release releases the bytes. Readers that are still in use keep theirs.
func (b *body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = nil
}
