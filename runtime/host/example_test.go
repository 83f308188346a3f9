package host_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/host"
)

// The main function of a program that deploys agents as processes of itself.
func ExampleRun() {
	if host.IsChild(os.Args) {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		err := host.Run(context.Background(), host.Process{
			Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv, Signals: signals,
			Proxy: http.ProxyFromEnvironment, Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		})
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	fmt.Println("serve the hub")
	// Output: serve the hub
}

// A deployer that ends before it has recorded the process sends no line, and the process ends too.
func TestStartIsConfirmedOnStandardInput(t *testing.T) {
	for _, stdin := range []string{"", "go"} {
		err := host.Run(t.Context(), host.Process{Args: []string{"x", "agenthost-runtime"}, Stdin: strings.NewReader(stdin), Getenv: os.Getenv})
		require.EqualError(t, err, "standard input ended before it had a line")
	}
	for _, args := range [][]string{nil, {"x"}, {"x", "runtime"}, {"x", "agenthost-runtime", "y"}} {
		require.False(t, host.IsChild(args))
		require.Error(t, host.Run(t.Context(), host.Process{Args: args}))
	}
}
