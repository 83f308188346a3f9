package hub_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/secret"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "hub")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	h, err := hub.New(context.Background(), hub.Config{
		DatabaseURL:    "sqlite://" + filepath.Join(dir, "hub.db"),
		EncryptionKeys: []string{secret.Generate()}, // made once and kept
		PublicURL:      "https://hub.example.com",
	})
	if err != nil {
		panic(err)
	}
	defer h.Close()
	server := httptest.NewServer(h) // or http.ListenAndServe, with mux.Handle("/hub/", http.StripPrefix("/hub", h))
	defer server.Close()

	first := `{"username": "ada", "password": "correct horse", "setup_token": "` + h.SetupToken() + `"}`
	res, err := http.Post(server.URL+"/auth/setup", "application/json", strings.NewReader(first))
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	fmt.Println(res.Status)
	// Output: 201 Created
}
