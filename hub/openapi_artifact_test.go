package hub_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/wire"
)

// files is a driver that can be disconnected.
type files struct {
	blob.Memory
	down atomic.Bool
}

func (f *files) Open(ctx context.Context, key string) (*blob.Blob, error) {
	if f.down.Load() {
		return nil, errors.New("connection refused")
	}
	return f.Memory.Open(ctx, key)
}

// artifacts downloads a tool and a skill.
func (c *contract) artifacts(string) {
	ctx, store := c.t.Context(), hub.Artifacts(c.Hub)
	tool, err := store.Put(ctx, artifact.Tools, "a b.ts", strings.NewReader("export default {}"))
	require.NoError(c.t, err)
	skill, err := store.Put(ctx, artifact.Skills, "s.zip", strings.NewReader("an archive"))
	require.NoError(c.t, err)
	link, _, err := store.SignedURL(ctx, skill, time.Hour)
	require.NoError(c.t, err)
	paths := []string{strings.TrimPrefix(store.URL(tool), c.PublicURL()), strings.TrimPrefix(link, c.PublicURL())}
	for i, content := range []string{"export default {}", "an archive"} {
		path := paths[i]
		res := c.send("GET", path, "", "")
		require.Equal(c.t, http.StatusOK, res.status, res.text)
		require.Equal(c.t, content, res.text)
		part := c.send("GET", path, "", "", "Range", "bytes=1-3")
		require.Equal(c.t, http.StatusPartialContent, part.status)
		require.Equal(c.t, content[1:4], part.text)
		require.Equal(c.t, http.StatusNotModified, c.send("GET", path, "", "", "If-None-Match", res.header.Get("Etag")).status)
		c.reject(http.StatusPreconditionFailed, wire.PreconditionFailed, "GET", path, "", "", "If-Match", `"other"`)
		c.reject(http.StatusRequestedRangeNotSatisfiable, wire.InvalidRequest, "GET", path, "", "", "Range", "bytes=99-")
		c.files.down.Store(true)
		c.reject(http.StatusServiceUnavailable, wire.Unavailable, "GET", path, "", "")
		c.files.down.Store(false)
	}
	c.reject(http.StatusNotFound, wire.NotFound, "GET", strings.Replace(paths[0], "a%20b", "other", 1), "", "")
	c.reject(http.StatusForbidden, wire.Forbidden, "GET", paths[1]+"x", "", "")
	skill.Name = "other.zip"
	link, _, err = store.SignedURL(ctx, skill, time.Hour)
	require.NoError(c.t, err)
	c.reject(http.StatusNotFound, wire.NotFound, "GET", strings.TrimPrefix(link, c.PublicURL()), "", "")
	c.wait(time.Hour)
	c.reject(http.StatusForbidden, wire.Forbidden, "GET", paths[1], "", "")
	c.wait(-time.Hour)
}
