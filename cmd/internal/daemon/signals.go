package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed93082962/agenthost/internal/httpserve"
)

// Notify returns SIGINT and SIGTERM, and SIGHUP unless that is ignored, as with nohup.
func Notify() chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}

	return signals
}

// Signals returns the context of a server that ends with the first signal of [Notify]. With the
// second one, the server cancels what it waits for. The third one has the default effect and ends
// the process immediately.
func Signals() context.Context {
	signals := Notify()
	first, second := httpserve.Signals(context.Background(), signals)
	context.AfterFunc(second, func() { signal.Stop(signals) })
	return first
}
