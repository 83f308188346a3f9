package auditlog_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

// pruned is a store in which all entries are pruned when an export reaches its 900th entry.
type pruned struct{ *memaudit.Store }

func (s pruned) Entries(ctx context.Context, tenantID string, f auditlog.Filter, snapshot *uint64) iter.Seq2[auditlog.Entry, error] {
	return func(yield func(auditlog.Entry, error) bool) {
		n := 0
		for e, err := range s.Store.Entries(ctx, tenantID, f, snapshot) {
			if n++; n == 900 {
				_, err = s.Prune(ctx, tenantID, 0, pruneAudit)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A store may omit entries that are pruned while they are read. An export without them must not
// appear complete.
func TestExportFailsIfEntriesArePruned(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	base := serve(t, auditlog.Handlers{Store: pruned{filled(t, 1000)}, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	response := start(t, base+"/export")
	require.Equal(t, http.StatusOK, response.StatusCode)
	_, err := io.Copy(io.Discard, response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, response.Body.Close())
	require.Contains(t, logs.String(), "entries were pruned during the export")
}
