package upstream

// Aside calls f on a goroutine of its own and waits until it has returned. A panic in f is the
// caller's.
//
// It is for what goes deep and is seldom done, such as encoding/json: the stack of an open stream
// grows by doubling and keeps its size while the stream waits, so that a few calls into the depth
// would cost each of them another 8 KiB. The price is five to ten microseconds: the stack of that
// goroutine has to grow.
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
