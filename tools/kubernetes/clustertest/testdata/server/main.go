// Program server is the image of the tests of package cluster.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func main() {
	http.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	http.HandleFunc("GET /user", func(w http.ResponseWriter, _ *http.Request) {
		status, _ := os.ReadFile("/proc/self/status")
		_, _ = fmt.Fprintf(w, "%d:%d\n%s", os.Getuid(), os.Getgid(), status)
	})
	http.HandleFunc("GET /env", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, os.Environ()) })
	http.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(r.FormValue("path"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(text)
	})
	http.HandleFunc("PUT /file", func(w http.ResponseWriter, r *http.Request) {
		if err := os.WriteFile(r.FormValue("path"), []byte(r.FormValue("text")), 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
		}
	})
	http.HandleFunc("POST /exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		fmt.Println("exits as requested")
		os.Exit(code)
	})
	http.HandleFunc("POST /memory", func(http.ResponseWriter, *http.Request) {
		for all := [][]byte{}; ; {
			page := make([]byte, 1<<20)
			for i := range page {
				page[i] = 1
			}
			all = append(all, page)
		}
	})
	if len(os.Args) > 1 && os.Args[1] == "fail" {
		log.Fatal("the configuration is incorrect")
	}
	if len(os.Args) > 1 && os.Args[1] == "ignore" {
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Println("serves")
	log.Fatal(http.ListenAndServe(":8080", nil)) //nolint:gosec // G114: of a test
}
