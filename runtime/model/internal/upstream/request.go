package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/seed93082962/agenthost/runtime/model"
)

// body is the JSON of one request. A conversation may have megabytes, and net/http keeps a request
// until its response ends: the bytes are released as soon as they are sent.
type body struct {
	head []byte // the brace and the tools, shared by many requests

	mu   sync.Mutex
	data []byte // the rest, guarded by mu; nil after the response has begun
}

// toolField has the JSON of the tools that were offered last, which are usually the same in each
// call. Checking and copying their schemas would take longer than the rest of a request. It is
// immutable.
type toolField struct {
	tools []model.Tool
	json  []byte
}

// encodeBody returns the JSON of a request with the fields of Config.Body and the tools.
func (c *Client) encodeBody(request any, tools []model.Tool) (*body, error) {
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
		return &body{data: data}, err
	}
	same := func(a, b model.Tool) bool { // fast for tools that share their texts
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
	}
	last := c.tools.Load()
	if last == nil || !slices.EqualFunc(last.tools, tools, same) {
		list, err := encode(c.list(tools))
		if err != nil {
			return nil, err
		}
		last = &toolField{slices.Clone(tools), fmt.Appendf(nil, `{"tools":%s,`, list)}
		c.tools.Store(last)
	}
	return &body{head: last.json, data: data[len("{"):]}, nil
}

// encode does not escape < > &: source code would become much longer.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), err
}

// open returns a new reader from the start, for http.Request.GetBody.
func (b *body) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data == nil {
		return nil, errReleased
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.head), bytes.NewReader(b.data))), nil // releases the bytes at its end
}

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
