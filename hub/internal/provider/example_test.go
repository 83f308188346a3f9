package provider_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

func Example() {
	if err := run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: Gateway sk-1...cdef ready
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "provider")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	database, err := db.Open(ctx, db.Config{URL: "sqlite://" + filepath.Join(dir, "hub.db")})
	if err != nil {
		return err
	}
	defer database.Close()
	if err := database.Migrate(ctx, db.Series{Name: "audit", Files: sqlaudit.Migrations()}, provider.Migrations); err != nil {
		return err
	}
	audit, err := sqlaudit.New(sqlaudit.Config{Write: database.Write(), Read: database.Read(), Engine: string(database.Engine())})
	if err != nil {
		return err
	}
	keyring, err := secret.Parse(secret.Generate()) // store the key: it opens what it has sealed
	if err != nil {
		return err
	}
	hubStore, err := store.New(store.Config{DB: database, Keyring: keyring, Audit: audit})
	if err != nil {
		return err
	}
	service, err := provider.New(provider.Config{Store: hubStore})
	if err != nil {
		return err
	}
	// The service needs no HTTP. Its Routes are for api.New.
	caller := api.Caller{TenantID: "acme", UserID: "1", UserName: "ada", RoleNow: rbac.Maintainer}
	made, err := service.CreateProvider(ctx, caller, provider.Input{ProviderRequest: wire.ProviderRequest{
		Name: "Gateway", ProbeRequest: wire.ProbeRequest{
			Protocol: agent.ProtocolOpenAI, BaseURL: "https://llm.example.com/v1", APIKey: wire.KeyChange{Value: "sk-1234567890abcdef-90abcdef"},
		},
	}})
	if err != nil {
		return err
	}
	fmt.Println(made.Name, made.MaskedKey, made.KeyState)
	return nil
}
