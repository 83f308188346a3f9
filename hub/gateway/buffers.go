package gateway

import "sync"

// bufferSize is that of the buffer of a response, which it holds until it ends: an event stream has
// small parts.
const bufferSize = 16 << 10

// buffers reuses the buffers of responses.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
