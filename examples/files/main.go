// Command files serves a directory, and accepts uploads. No path and no link leads outside of it:
//
//	go run ./examples/files -dir .
//	curl http://127.0.0.1:8082/                                             # the names in it
//	curl -X PUT --data-binary @go.mod http://127.0.0.1:8082/notes/today.md  # an upload
//	curl -H "Range: bytes=0-9" http://127.0.0.1:8082/notes/today.md         # a part of a file
//	curl http://127.0.0.1:8082/%2e%2e/secret                                # 404
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/filesafe"
)

const maxUpload = 16 << 20 // bytes

func main() {
	path := flag.String("dir", ".", "directory")
	addr := flag.String("addr", "127.0.0.1:8082", "address to listen on")
	flag.Parse()
	if err := serve(*path, *addr); err != nil {
		log.Fatal(err)
	}
}

func serve(path, addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := filesafe.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	mux := http.NewServeMux()
	mux.Handle("GET /", dir.Handler())
	mux.HandleFunc("PUT /", func(w http.ResponseWriter, r *http.Request) { upload(dir, w, r) })
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.Background()) })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// upload writes a file completely or not at all.
func upload(dir *filesafe.Dir, w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpload))
	if err != nil {
		http.Error(w, "the file is too large", http.StatusRequestEntityTooLarge)
		return
	}
	err = dir.WriteFile(strings.TrimPrefix(r.URL.Path, "/"), data, 0o644)
	switch {
	case errors.Is(err, filesafe.ErrOutside):
		http.Error(w, "the path leads outside of the directory", http.StatusForbidden)
	case err != nil:
		http.Error(w, "the file cannot be written", http.StatusConflict)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
