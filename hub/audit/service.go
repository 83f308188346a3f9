// Package audit serves the audit log of the hub: its routes, its retention, and the entries of
// denied requests.
package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/store"
)

// Config configures [New].
type Config struct {
	// Store has the logger and the clock. Required.
	Store *store.Store

	// Log is the audit log. Required.
	Log *sqlaudit.Store

	// Retention is the age at which entries are pruned, by the clock of the hub or the database,
	// whichever is earlier. Defaults to no pruning.
	Retention time.Duration
}

// Service is the audit part of the hub. It is safe for concurrent use.
type Service struct {
	store     *store.Store
	log       *sqlaudit.Store
	retention time.Duration
	denials   *limiter
}

// New returns a Service. The caller runs [Service.Maintain] from time to time.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Log == nil {
		return nil, errors.New("create audit service: Store and Log are required")
	}
	return &Service{store: cfg.Store, log: cfg.Log, retention: cfg.Retention, denials: newLimiter(maxDenials, time.Minute, cfg.Store.Now)}, nil
}

// Write writes the audit log of a tenant as NDJSON, oldest first, each entry with its hash. Of
// a damaged log it writes what is left before it returns the error.
func (s *Service) Write(ctx context.Context, w io.Writer, tenantID string) error {
	out := bufio.NewWriter(w)
	return errors.Join(s.write(ctx, out, tenantID), out.Flush())
}

func (s *Service) write(ctx context.Context, w io.Writer, tenantID string) error {
	var line []byte
	for entry, err := range s.log.Entries(ctx, tenantID, auditlog.Filter{}, nil) {
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		if line, err = entry.AppendNDJSON(line[:0]); err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write audit log: %w", err)
		}
	}
	return nil
}
