package identity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/identity"
	"github.com/seed93082962/agenthost/hub/secret"
)

// A server with users: the first one is made, and then asks who they are.
func Example() {
	if err := run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// /auth/setup 201
	// /auth/userinfo 200
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "identity")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	database, err := db.Open(ctx, db.Config{URL: "sqlite://" + filepath.Join(dir, "hub.db")})
	if err != nil {
		return err
	}
	defer database.Close()
	if err := database.Migrate(ctx, db.Series{Name: "audit", Files: sqlaudit.Migrations()}, identity.Migrations); err != nil {
		return err
	}
	audit, err := sqlaudit.New(sqlaudit.Config{Write: database.Write(), Read: database.Read(), Engine: string(database.Engine())})
	if err != nil {
		return err
	}
	defer audit.Close()
	keyring, err := secret.Parse(secret.Generate()) // keep it: it opens what it has sealed
	if err != nil {
		return err
	}
	service, err := identity.New(ctx, identity.Config{DB: database, Keyring: keyring, Audit: audit, Loopback: true})
	if err != nil {
		return err
	}
	defer service.Close()
	handler, err := api.New(api.Config{Authenticate: service.Authenticate}, service.Routes()...)
	if err != nil {
		return err
	}

	call := func(method, path, token, body string) (access string) {
		r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		var answer struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			fmt.Println(err)
		}
		fmt.Println(path, w.Code)
		return answer.AccessToken
	}
	token := call(http.MethodPost, "/auth/setup", "", `{"password":"correct horse battery"}`)
	call(http.MethodGet, "/auth/userinfo", token, "")
	return nil
}
