// Command hub embeds a hub. The runtimes of its agents are processes of this program:
//
//	go run ./examples/hub -data data
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy/process"
	"github.com/seed93082962/agenthost/runtime/host"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var err error
	if host.IsChild(os.Args) { // it was started by serve, as the runtime of a deployment
		err = host.Run(context.Background(), host.Process{
			Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv, Signals: signals,
			Proxy: http.ProxyFromEnvironment, Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		})
	} else {
		data := flag.String("data", "data", "directory of the hub")
		flag.Parse()
		err = serve(*data, signals)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(data string, signals <-chan os.Signal) error {
	driver, err := process.New(process.Config{Dir: filepath.Join(data, "deployments"), Env: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(data, "encryption.key"))
	if errors.Is(err, fs.ErrNotExist) { // the first start
		key = []byte(hub.GenerateKey())
		err = os.WriteFile(filepath.Join(data, "encryption.key"), key, 0o600)
	}
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	h, err := hub.New(context.Background(), hub.Config{
		DatabaseURL:    "sqlite://" + filepath.Join(data, "hub.db"),
		EncryptionKeys: []string{string(key)},
		PublicURL:      url, Deployer: driver,
	})
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\nsetup token %s\n", url, h.SetupToken())
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { <-signals; _ = server.Close() }()
	if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, h.Close()) // the runtimes continue
}
