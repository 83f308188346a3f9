package provider_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/internal/db"
)

// A key is in no response but that of reveal-key, and in no log, audit entry or row.
func TestKeysAppearNowhere(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		var text strings.Builder
		server := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("Authorization"), http.StatusTeapot)
		})
		id := create(s.acme, gateway(object{"baseUrl": server.URL}))
		path := admin + "/" + id
		for _, res := range []string{
			s.acme.Post(admin, gateway(nil)).Text, s.acme.Post(admin, gateway(object{"name": "Other"})).Text, s.acme.Post(admin, gateway(object{"name": ""})).Text,
			s.acme.Post(admin, gateway(object{"apiKey": plantedKey + " "})).Text, s.acme.Post(admin, gateway(object{"models": plantedKey})).Text,
			s.acme.Get(admin).Text, s.acme.Get(public).Text, s.acme.Get(public + "/runtime-config").Text, s.acme.Get(path).Text,
			s.acme.Put(path, gateway(object{"baseUrl": server.URL, "apiKey": plantedKey + "2"})).Text, s.acme.Post(path+"/probe", nil).Text,
			s.acme.Post(admin+"/probe", gateway(object{"baseUrl": server.URL})).Text, s.acme.Put(path, gateway(nil), "If-Match", `"9"`).Text,
			strings.Join(s.Audit("acme"), ""), s.Log.String(), s.log.String(),
		} {
			text.WriteString(res)
		}
		s.acme.Post(path+"/reveal-key", nil).Want(http.StatusOK)
		text.WriteString(strings.Join(s.Audit("acme"), "") + s.Log.String() + s.log.String())
		for e, err := range s.store.Audit.(auditlog.Store).Entries(t.Context(), "acme", auditlog.Filter{}, nil) {
			require.NoError(t, err)
			line, err := e.AppendNDJSON(nil)
			require.NoError(t, err)
			text.Write(line)
		}
		rows, err := db.Collect(t.Context(), s.db.Read(), "read rows", func(row db.Scanner) (string, error) {
			var columns [4]string
			var sealed []byte
			err := row.Scan(&columns[0], &columns[1], &columns[2], &columns[3], &sealed)
			return strings.Join(columns[:], "") + string(sealed), err
		}, `SELECT name, name_fold, base_url, models, api_key_enc FROM providers`)
		require.NoError(t, err)
		text.WriteString(strings.Join(rows, ""))
		for _, form := range []string{plantedKey, plantedKey[4:], base64.StdEncoding.EncodeToString([]byte(plantedKey))} {
			require.NotContains(t, text.String(), form)
		}
	})
}

// An audit log that fails also fails the change.
func TestEveryChangeIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		id := create(s.acme, gateway(nil))
		_, err := s.db.Write().ExecContext(t.Context(), `DROP TABLE audit_entries`)
		require.NoError(t, err)
		s.acme.Put(admin+"/"+id, gateway(object{"name": "Other"})).Error(http.StatusInternalServerError, code.InternalError)
		s.acme.Delete(admin+"/"+id).Error(http.StatusInternalServerError, code.InternalError)
		s.acme.Post(admin+"/"+id+"/reveal-key", nil).Error(http.StatusInternalServerError, code.InternalError)
		s.acme.Post(admin+"/demo/probe", nil).Error(http.StatusInternalServerError, code.InternalError)
		require.Equal(t, "Gateway", s.acme.Get(admin + "/" + id).Want(http.StatusOK)["name"])
	})
}
