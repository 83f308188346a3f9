package filesafe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/filesafe"
)

// This program serves a directory.
func Example() {
	dir, err := filesafe.Open("/srv/work")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", dir.Handler()))
}

// folder creates a directory with one file and a link that leads outside.
func folder() (path string, remove func()) {
	top, _ := os.MkdirTemp("", "filesafe")
	_ = os.MkdirAll(filepath.Join(top, "work", "notes"), 0o755)
	_ = os.WriteFile(filepath.Join(top, "work", "notes", "today.md"), []byte("# Today\n"), 0o644)
	_ = os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o600)
	_ = os.Symlink("../secret", filepath.Join(top, "work", "trap"))
	return filepath.Join(top, "work"), func() { _ = os.RemoveAll(top) }
}

func ExampleOpen() {
	path, remove := folder()
	defer remove()

	dir, err := filesafe.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dir.Close()
	f, err := dir.Open("notes/today.md")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	text, _ := io.ReadAll(f)
	fmt.Printf("%s", text)
	_, err = dir.Open("trap")
	fmt.Println(err)
	// Output:
	// # Today
	// open trap: path leads outside the directory
}

func ExampleDir_Walk() {
	path, remove := folder()
	defer remove()

	dir, err := filesafe.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dir.Close()
	for e, err := range dir.Walk(context.Background(), "", -1) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.Type, e.Size, e.Name)
	}
	// Output:
	// directory 0 notes
	// file 8 notes/today.md
	// symlink 0 trap
}

func ExampleDir_WriteFile() {
	path, remove := folder()
	defer remove()

	dir, err := filesafe.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dir.Close()
	fmt.Println(dir.WriteFile("reports/2026/first.md", []byte("# First\n"), 0o644))
	fmt.Println(dir.WriteFile("trap", []byte("x"), 0o644))
	// Output:
	// <nil>
	// write trap: path leads outside the directory
}

// The handlers are mounted at the two routes of the runtime's files interface.
func ExampleHandlers() {
	path, remove := folder()
	defer remove()

	dir, err := filesafe.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dir.Close()
	api := &filesafe.Handlers{Dir: dir}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/files", api.List)
	mux.HandleFunc("GET /v1/files/content", api.Content)

	for _, url := range []string{"/v1/files/content?path=notes/today.md", "/v1/files/content?path=trap", "/v1/files?path=nothing"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 # Today
	// 400 {"error":"Invalid path"}
	// 404 {"error":"Directory not found"}
}
