package aigc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
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
	// Output: 本内容由人工智能生成 true
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "aigc")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	database, err := db.Open(ctx, db.Config{URL: "sqlite://" + filepath.Join(dir, "hub.db")})
	if err != nil {
		return err
	}
	defer database.Close()
	if err := database.Migrate(ctx, db.Series{Name: "audit", Files: sqlaudit.Migrations()}, aigc.Migrations); err != nil {
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
	service := aigc.New(hubStore)
	// The service needs no HTTP. Its Routes are for api.New.
	caller := api.Caller{TenantID: "acme", UserID: "1", UserName: "ada", RoleNow: rbac.Maintainer}
	in := wire.AIGCRequest{AIGCLabeling: wire.AIGCLabeling{Enabled: true, CompanyName: "Example", ContentProducer: "00119144030071526726XG10000"}}
	in.Signing.Enabled = true
	if _, err := service.SetSettings(ctx, caller, in); err != nil {
		return err
	}
	marker, err := service.Label(ctx, "acme")
	if err != nil {
		return err
	}
	result, err := service.Verify(ctx, caller, marker.Label)
	if err != nil {
		return err
	}
	fmt.Println(marker.Text, result.Valid)
	return nil
}
