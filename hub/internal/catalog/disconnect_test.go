package catalog_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

func TestAClientThatDisconnectsDuringAnUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	driver, temp := &blob.Memory{}, t.TempDir()
	s := open(t, dbtest.SQLite(t, series...), func(cfg *catalog.Config) { cfg.TempDir = temp; withStore(driver)(cfg) })
	large := toolSource + "\n//" + strings.Repeat("x", 1<<20)
	tool, kind := form(t, "weather.ts", large)
	skill, skillKind := form(t, "s.zip", zipOf(t, "SKILL.md", "---\nname: s\ndescription: d\n---\n"), "type", "expert")
	for name, row := range map[string]struct {
		path, kind string
		body       io.Reader
		missing    int // bytes at the end of the form that are not sent
	}{
		"half of the file":       {tools, kind, tool, len(large) / 2},
		"all but the last bytes": {skills, skillKind, skill, 4},
	} {
		req := s.ada.Request(http.MethodPost, row.path, nil, "Content-Type", row.kind)
		all, err := io.ReadAll(row.body)
		require.NoError(t, err)
		conn, err := net.Dial("tcp", req.URL.Host)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "POST "+row.path+" HTTP/1.1\r\nHost: hub\r\nAuthorization: "+req.Header.Get("Authorization")+
			"\r\nContent-Type: "+row.kind+"\r\nContent-Length: "+strconv.Itoa(len(all))+"\r\n\r\n"+string(all[:len(all)-row.missing]))
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		for text, wrote := s.Log.Now(); !strings.Contains(text, `"path":"`+row.path+`"`); text, wrote = s.Log.Now() {
			<-wrote // the request ends
		}
		require.Contains(t, s.Log.String(), `"path":"`+row.path+`","status":400`, name)
	}
	for info, err := range driver.List(t.Context(), "") {
		require.NoError(t, err)
		require.Fail(t, info.Key)
	}
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
	s.ada.Get(tools+"/weather").Error(http.StatusNotFound, wire.NotFound)
	s.ada.Get(skills+"/s").Error(http.StatusNotFound, wire.NotFound)
	require.Empty(t, s.Audit("acme"))
}

// The body arrives as announced, but the form in it has no end.
func TestAFormWithoutItsEndIsRejected(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), nil)
	body, kind := form(t, "weather.ts", toolSource)
	all, err := io.ReadAll(body)
	require.NoError(t, err)
	for _, missing := range []int{3, 4, 5, 20} { // it ends with "--" and a line break
		cut := strings.NewReader(string(all[:len(all)-missing]))
		s.ada.Do(http.MethodPost, tools, cut, "Content-Type", kind).Error(http.StatusBadRequest, wire.InvalidRequest)
	}
	require.Empty(t, s.Audit("acme"))
}

// unconfirmed is a driver that fails after an upload.
type unconfirmed struct{ blob.Memory }

func (*unconfirmed) Stat(context.Context, string) (blob.Info, error) {
	return blob.Info{}, errors.New("connection reset")
}

func TestAnUploadThatCannotBeConfirmedIsStored(t *testing.T) {
	t.Parallel()
	s := open(t, dbtest.SQLite(t, series...), withStore(new(unconfirmed)))
	send(t, s.ada, "POST", tools, "weather.ts", toolSource).Want(http.StatusCreated)
	require.Equal(t, toolSource, s.ada.Get(tools+"/weather/download").Text)
}
