package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// hurry is the key of the context that ends with the second signal.
type hurry struct{}

// Signals returns a context that ends with the first SIGINT or SIGTERM, and with SIGHUP unless that
// is ignored, as with nohup. With the second signal, [Server.Serve] cancels what it waits for. The
// third one has the default effect and ends the process immediately.
func Signals() context.Context {
	second, endSecond := context.WithCancel(context.Background())
	first, endFirst := context.WithCancel(context.WithValue(context.Background(), hurry{}, second))
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		endFirst()
		<-signals
		endSecond()
		signal.Stop(signals)
	}()
	return first
}
