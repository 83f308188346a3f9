// Package aigc labels generated content as GB 45438-2025 requires: the configuration of each
// tenant, the keys that sign its labels, and the labels of messages.
//
//	marker, err := service.Label(ctx, tenantID) // one for each answer; nil if labels are disabled
//	if marker != nil {
//		data, err := json.Marshal(marker.Label) // the implicit label, for the metadata
//		... marker.Mode, marker.Text            // the explicit label, for the reader
//	}
//
// The form of a label and of its signature is that of package hub/aigc/label. The keys are sealed
// in the database and never returned. A key that was replaced, or whose configuration was deleted,
// still verifies the labels that it signed.
package aigc

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/secret"
)

//go:embed migrations
var files embed.FS

// Migrations create the tables that New requires.
var Migrations = db.Embedded("aigc", files)

// Audit appends records in the transaction of their change.
type Audit interface {
	AppendTx(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error
}

// Config configures [New].
type Config struct {
	// DB is a database with Migrations and those of Audit applied. Required.
	DB *db.DB

	// Keyring seals the keys that sign labels. Required.
	Keyring *secret.Keyring

	// Audit receives a record of each change, in the transaction of the change. Required.
	Audit Audit

	// Now is the clock. Defaults to time.Now.
	Now func() time.Time

	// Logger receives keys that cannot be opened, by their id. Defaults to none.
	Logger *slog.Logger
}

// Service is the part of the hub that labels content. It is safe for concurrent use.
type Service struct {
	cfg Config
	db  *db.DB
}

// New returns a Service on a migrated database.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Keyring == nil || cfg.Audit == nil {
		return nil, errors.New("create aigc service: DB, Keyring and Audit are required")
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, db: cfg.DB}, nil
}

// Routes returns all routes of this package.
func (s *Service) Routes() []api.Route {
	return slices.Concat(s.settingsRoutes(), s.keyRoutes())
}

func (s *Service) now() time.Time { return s.cfg.Now().Truncate(time.Microsecond) }

func (s *Service) record(ctx context.Context, tx *sql.Tx, records ...auditlog.Record) error {
	return db.Wrap("record", s.cfg.Audit.AppendTx(ctx, tx, records...))
}
