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
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
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
	denials   *api.Limiter
}

// New returns a Service. The caller runs [Service.Maintain] from time to time.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Log == nil {
		return nil, errors.New("create audit service: Store and Log are required")
	}

	return &Service{store: cfg.Store, log: cfg.Log, retention: cfg.Retention, denials: api.NewLimiter(maxDenials, cfg.Store.Now)}, nil
}

// Write writes the audit log of a tenant as NDJSON, oldest first, each entry with its hash. Of
// a damaged log it writes what is left before it returns the error. With follow, it also writes the
// entries that are appended later, until ctx ends. It returns nil then.
func (s *Service) Write(ctx context.Context, w io.Writer, tenantID string, follow bool) error {
	after, err := s.write(ctx, w, tenantID, 0)
	for err == nil && follow {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followInterval):
		}

		after, err = s.write(ctx, w, tenantID, after)
	}

	if follow && ctx.Err() != nil {
		err = nil // the reader was stopped
	}

	return err
}

// followInterval is the time between two readings of a log that is followed.
const followInterval = time.Second

// write writes the entries after an id and returns the last id.
func (s *Service) write(ctx context.Context, w io.Writer, tenantID string, after uint64) (last uint64, err error) {
	last = after
	out := bufio.NewWriter(w)
	defer func() { err = errors.Join(err, out.Flush()) }()
	var line []byte
	for entry, err := range s.log.Entries(ctx, tenantID, auditlog.Filter{AfterID: after}, nil) {
		if err != nil {
			return last, fmt.Errorf("read audit log: %w", err)
		}

		if line, err = entry.AppendNDJSON(line[:0]); err != nil {
			return last, err
		}

		if _, err := out.Write(line); err != nil {
			return last, fmt.Errorf("write audit log: %w", err)
		}

		last = entry.ID
	}

	return last, nil
}
