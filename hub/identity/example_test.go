package identity_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/identity"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/hub/store"
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
	handle, err := store.New(store.Config{DB: database, Keyring: keyring, Audit: audit})
	if err != nil {
		return err
	}
	service, err := identity.New(ctx, identity.Config{Store: handle})
	if err != nil {
		return err
	}
	defer service.Close()
	// The service needs no HTTP. Its Routes are for api.New.
	here := api.Caller{RemoteIP: "127.0.0.1"}
	if _, err = service.Setup(ctx, here, identity.SetupInput{Password: "correct horse battery", SetupToken: service.SetupToken()}); err != nil {
		return err
	}
	signIn, err := service.Login(ctx, here, identity.LoginInput{Username: "admin", Password: "correct horse battery"})
	if err != nil {
		return err
	}
	admin, err := service.AuthenticateToken(ctx, here, signIn.AccessToken)
	if err != nil {
		return err
	}
	invite, err := service.CreateInvite(ctx, admin, identity.InviteInput{Role: "member"})
	if err != nil {
		return err
	}
	fmt.Println(admin.UserName, "invites a", invite.Role)
	return nil
}
