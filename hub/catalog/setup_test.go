package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api/apitest"
	"github.com/seed93082962/agenthost/hub/catalog"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/secret"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// site is a catalog on a database of its own, with its routes.
type site struct {
	*apitest.Server
	*catalog.Service
	db *db.DB
}

// each runs a test on both engines. set changes the configuration, and may be nil.
func each(t *testing.T, set func(*catalog.Config), test func(*testing.T, *site)) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		test(t, open(t, url, set))
	})
}

func open(t testing.TB, url string, set func(*catalog.Config)) *site {
	t.Helper()
	d := dbtest.Open(t, url, apitest.Audit(), catalog.Migrations)
	keyring, err := secret.Parse(secret.Generate())
	require.NoError(t, err)
	audit := apitest.NewAudit(t, d)
	cfg := catalog.Config{DB: d, Keyring: keyring, Audit: audit}
	if set != nil {
		set(&cfg)
	}
	service, err := catalog.New(cfg)
	require.NoError(t, err)
	return &site{Server: apitest.Serve(t, apitest.Config{Audit: audit}, service.Routes()), Service: service, db: d}
}

func TestMigrationsApply(t *testing.T) {
	each(t, nil, func(t *testing.T, s *site) {
		require.NoError(t, s.db.Migrated(t.Context(), catalog.Migrations))
	})
}
