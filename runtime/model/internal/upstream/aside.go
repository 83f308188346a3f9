package upstream

// Aside calls f on a separate goroutine and waits until it returns. A panic in f becomes a panic of
// the caller.
//
// It is for deep and rare calls, such as encoding/json: the stack of an open stream doubles when it
// grows and keeps its size while the stream waits, so that one deep call would cost every stream
// another 8 KiB. Aside takes five to ten microseconds, because the stack of the new goroutine has
// to grow.
func Aside(f func()) {
	var fault any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { fault = recover() }()
		f()
	}()
	<-done
	if fault != nil {
		panic(fault)
	}
}
