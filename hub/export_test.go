package hub

import (
	"context"

	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/password"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
)

// Migrations returns the migrations of all concerns.
func Migrations() []db.Series { return migrations() }

// CheapPasswords makes a hash of a password take no time.
func CheapPasswords(cfg *Config) { cfg.passwordCost = password.Cost{Memory: 8, Passes: 1, Threads: 1} }

// Translate converts an error of another package.
func Translate(err error) *wire.Error { return translate(err) }

// PruneAudit applies the retention, which waits after a start.
func PruneAudit(h *Hub) { h.audit.Prune(context.Background()) }

// CheckAuditHeads checks the clock, which happens in the background after a start.
func CheckAuditHeads(h *Hub) { h.audit.CheckHeads(context.Background()) }

// Artifacts returns the store of files.
func Artifacts(h *Hub) *artifact.Store { return h.artifacts }

// SweepArtifacts deletes files that nothing names, which happens in the background.
func SweepArtifacts(h *Hub) { h.sweepArtifacts(context.Background()) }
