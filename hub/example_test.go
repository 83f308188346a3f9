package hub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/rbac"
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

// Users of the program that embeds the hub need no second sign-in.
func ExampleConfig_authenticate() {
	dir, err := os.MkdirTemp("", "hub")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	users := map[string]api.Caller{"c1": {UserID: "17", UserName: "ada", RoleNow: rbac.Maintainer}} // by session
	h, err := hub.New(context.Background(), hub.Config{
		DatabaseURL:    "sqlite://" + filepath.Join(dir, "hub.db"),
		EncryptionKeys: []string{secret.Generate()},
		PublicURL:      "https://hub.example.com",
		Authenticate: func(r *http.Request) (*api.Caller, error) {
			cookie, err := r.Cookie("session")
			if errors.Is(err, http.ErrNoCookie) {
				return nil, nil // the hub authenticates the request
			}
			user, ok := users[cookie.Value]
			if !ok {
				return nil, wire.Unauthenticated
			}
			return &user, nil
		},
	})
	if err != nil {
		panic(err)
	}
	defer h.Close()
	for _, session := range []string{"c1", "c2"} {
		r := httptest.NewRequest(http.MethodGet, "/auth/userinfo", http.NoBody)
		r.AddCookie(&http.Cookie{Name: "session", Value: session})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), `"username":"ada"`))
	}
	// Output:
	// 200 true
	// 401 false
}
