package catalog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/rbac"
)

func Example() {
	if err := run(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// coder 1 [Read]
	// agents:
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "catalog")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	database, err := db.Open(ctx, db.Config{URL: "sqlite://" + filepath.Join(dir, "hub.db")})
	if err != nil {
		return err
	}
	defer database.Close()
	if err := database.Migrate(ctx, db.Series{Name: "audit", Files: sqlaudit.Migrations()}, provider.Migrations, catalog.Migrations); err != nil {
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
	handle, err := store.New(store.Config{DB: database, Keyring: keyring, Audit: audit})
	if err != nil {
		return err
	}
	providers, err := provider.New(provider.Config{Store: handle})
	if err != nil {
		return err
	}
	artifacts, err := artifact.New(artifact.Config{Driver: &blob.Memory{}, Keyring: keyring, PublicURL: "https://hub.example.com"})
	if err != nil {
		return err
	}
	service, err := catalog.New(catalog.Config{Store: handle, Providers: providers, Artifacts: artifacts})
	if err != nil {
		return err
	}
	// The service needs no HTTP. Its Routes are for api.New.
	caller := api.Caller{TenantID: "acme", UserID: "1", UserName: "ada", RoleNow: rbac.Maintainer}
	made, err := service.CreateAgent(ctx, caller, catalog.AgentInput{AgentRequest: wire.AgentRequest{Name: "coder", ProviderID: provider.Demo, Model: "demo", Tools: []string{"Read"}}})
	if err != nil {
		return err
	}
	fmt.Println(made.Name, made.Version, made.Tools)
	text, err := service.ExportAgent(ctx, caller, made.Name)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fmt.Println(first)
	return nil
}
