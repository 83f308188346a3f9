package session_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/clitoken"
	passwords "github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/internal/session"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/token"
	users "github.com/seed93082962/agenthost/hub/internal/user"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
)

// A server with users: the first one is made, and then asks who they are.
func Example() {
	if err := run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: admin invites a member
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
	if err := database.Migrate(ctx, db.Series{Name: "audit", Files: sqlaudit.Migrations()}, users.Migrations); err != nil {
		return err
	}
	audit, err := sqlaudit.New(sqlaudit.Config{Write: database.Write(), Read: database.Read(), Engine: string(database.Engine())})
	if err != nil {
		return err
	}
	keyring, err := secret.Parse(secret.Generate()) // keep it: it opens what it has sealed
	if err != nil {
		return err
	}
	handle, err := store.New(store.Config{DB: database, Keyring: keyring, Audit: audit})
	if err != nil {
		return err
	}
	keys, err := token.New(ctx, handle)
	if err != nil {
		return err
	}
	hashes := passwords.New(passwords.Config{Store: handle})
	everyone, err := users.New(ctx, users.Config{Store: handle, Passwords: hashes})
	if err != nil {
		return err
	}
	service, err := session.New(session.Config{
		Store: handle, Users: everyone, Passwords: hashes, CLITokens: clitoken.New(handle, everyone), Keys: keys,
	})
	if err != nil {
		return err
	}
	defer service.Close()
	// The services need no HTTP. Their Routes are for api.New.
	here := api.Caller{RemoteIP: "127.0.0.1"}
	if _, err = service.Setup(ctx, here, wire.SetupRequest{Password: "correct horse battery", SetupToken: everyone.SetupToken()}); err != nil {
		return err
	}
	signIn, err := service.Login(ctx, here, bodies.LoginRequest{Username: "admin", Password: "correct horse battery"})
	if err != nil {
		return err
	}
	admin, err := service.AuthenticateToken(ctx, here, signIn.AccessToken)
	if err != nil {
		return err
	}
	invite, err := everyone.CreateInvite(ctx, admin, bodies.CreateInviteRequest{Role: "member"})
	if err != nil {
		return err
	}
	fmt.Println(admin.UserName, "invites a", invite.Role)
	return nil
}
