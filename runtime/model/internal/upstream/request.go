package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed93082962/agenthost/runtime/model"
)

// Body is the JSON of one request. A conversation may have megabytes, and net/http keeps a request
// until its response ends: the bytes are released as soon as they are sent.
type Body struct {
	head []byte // the brace and the tools, shared by many requests

	mu   sync.Mutex
	data []byte // the rest, guarded by mu; nil after the response has begun
}

// Encode returns the JSON of a request, with further fields that replace those of the same name. A
// null removes a field.
func Encode(request any, fields map[string]json.RawMessage) (*Body, error) {
	data, err := encode(request)
	if err == nil && len(fields) > 0 {
		var all map[string]json.RawMessage
		if err = json.Unmarshal(data, &all); err == nil {
			maps.Copy(all, fields)
			maps.DeleteFunc(all, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
			data, err = encode(all)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encode model request: %w", err)
	}
	return &Body{data: data}, nil
}

// ToolCache has the JSON of the tools that were offered last, which are usually the same in each
// call. Checking and copying their schemas would take longer than the rest of a request. Its zero
// value is ready for use.
type ToolCache struct{ last atomic.Pointer[toolField] }

// toolField is immutable.
type toolField struct {
	tools []model.Tool
	json  []byte
}

// AddTo adds the field "tools" to a body that is an object. form returns its value.
func (c *ToolCache) AddTo(b *Body, tools []model.Tool, form func([]model.Tool) any) error {
	if len(tools) == 0 {
		return nil
	}
	same := func(a, b model.Tool) bool { // fast for tools that share their texts
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.InputSchema, b.InputSchema)
	}
	last := c.last.Load()
	if last == nil || !slices.EqualFunc(last.tools, tools, same) {
		list, err := encode(form(tools))
		if err != nil {
			return fmt.Errorf("encode model request: %w", err)
		}
		last = &toolField{slices.Clone(tools), fmt.Appendf(nil, `{"tools":%s,`, list)}
		c.last.Store(last)
	}
	b.head = last.json
	b.data = b.data[len("{"):]
	return nil
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
func (b *Body) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data == nil {
		return nil, errReleased
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(b.head), bytes.NewReader(b.data))), nil // releases the bytes at its end
}

func (b *Body) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return int64(len(b.head) + len(b.data))
}

// release releases the bytes. Readers that are still in use keep theirs.
func (b *Body) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = nil
}
