package store_test

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/sqlaudit"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/rbac"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

var notes = db.Series{Name: "notes", Files: fstest.MapFS{
	"sqlite/0001_notes.sql":   {Data: []byte(`CREATE TABLE notes (id TEXT NOT NULL PRIMARY KEY, tenant_id TEXT NOT NULL, key_enc BLOB, env TEXT NOT NULL DEFAULT '{}')`)},
	"postgres/0001_notes.sql": {Data: []byte(`CREATE TABLE notes (id TEXT NOT NULL PRIMARY KEY, tenant_id TEXT NOT NULL, key_enc BYTEA, env TEXT NOT NULL DEFAULT '{}')`)},
}}

type fixture struct {
	*store.Store
	t     *testing.T
	audit *sqlaudit.Store
	logs  *logtest.Buffer
}

var clock = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("CET", 3600))

// each runs a test on both engines with a store that has the keys.
func each(t *testing.T, keys []string, test func(t *testing.T, f fixture)) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url, notes, db.Series{Name: "auditlog", Files: sqlaudit.Migrations()})
		audit, err := sqlaudit.New(sqlaudit.Config{Write: d.Write(), Read: d.Read(), Engine: string(d.Engine())})
		require.NoError(t, err)
		logs := &logtest.Buffer{}
		f := fixture{t: t, audit: audit, logs: logs}
		f.Store = f.with(d, keys...)
		test(t, f)
	})
}

// with returns a store on the database with other keys.
func (f fixture) with(d *db.DB, keys ...string) *store.Store {
	ring, err := secret.Parse(keys...)
	require.NoError(f.t, err)
	s, err := store.New(store.Config{
		DB: d, Keyring: ring, Audit: f.audit, Now: func() time.Time { return clock }, Logger: slog.New(slog.NewJSONHandler(f.logs, nil)),
	})
	require.NoError(f.t, err)
	return s
}

func (f fixture) count(query string) (n int) {
	require.NoError(f.t, f.Read().QueryRowContext(f.t.Context(), query).Scan(&n))
	return n
}

var addNote = auditlog.Define[auditlog.None]("user.add_note")

var admin = api.Caller{TenantID: "acme", UserID: "u1", UserName: "ann", RoleNow: rbac.Admin}

func insert(ctx context.Context, tx *store.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO notes (id, tenant_id) VALUES ($1, $2)`, id, tx.Caller.TenantID)
	return err
}

func TestChange(t *testing.T) {
	each(t, []string{secret.Generate()}, func(t *testing.T, f fixture) {
		var locked, after []string
		change := store.Change{Caller: admin, Group: rbac.AdminOnly, Lock: func(_ context.Context, _ *sql.Tx, tenantID string) error {
			locked = append(locked, tenantID)
			return nil
		}}
		require.NoError(t, f.Change(t.Context(), change, func(tx *store.Tx) error {
			require.Equal(t, time.Date(2026, 3, 1, 11, 0, 0, 123456000, time.UTC), tx.Now)
			tx.AfterCommit(func() { after = append(after, "first") })
			tx.AfterCommit(func() { after = append(after, "second") })
			tx.Record(addNote.Record(tx.Caller.Event(), auditlog.None{}))
			require.NoError(t, insert(t.Context(), tx, "n1"), "the entry is appended last")
			return nil
		}))
		require.Equal(t, []string{"acme"}, locked)
		require.Equal(t, []string{"first", "second"}, after)
		require.Equal(t, 1, f.count(`SELECT COUNT(*) FROM notes`))
		require.Len(t, f.actions(), 1)

		after = nil
		for name, test := range map[string]struct {
			change store.Change
			result func(tx *store.Tx) error
			want   error
		}{
			"the function fails":  {change, func(*store.Tx) error { return wire.Conflict }, wire.Conflict},
			"nothing has changed": {change, (*store.Tx).Unchanged, nil},
			"it fails after all": {change, func(tx *store.Tx) error {
				require.NoError(t, tx.Unchanged())
				return wire.Conflict
			}, wire.Conflict},
			"no permission":  {store.Change{Caller: api.Caller{RoleNow: rbac.Member}, Group: rbac.AdminOnly}, nil, rbac.AdminOnly.Check(api.Caller{RoleNow: rbac.Member})},
			"not signed in":  {store.Change{Group: rbac.AdminOnly}, nil, rbac.AdminOnly.Check(api.Caller{})},
			"the lock fails": {store.Change{Lock: func(context.Context, *sql.Tx, string) error { return wire.NotFound }}, nil, wire.NotFound},
		} {
			err := f.Change(t.Context(), test.change, func(tx *store.Tx) error {
				tx.Record(addNote.Record(tx.Caller.Event(), auditlog.None{}))
				tx.AfterCommit(func() { after = append(after, name) })
				if err := insert(t.Context(), tx, name); err != nil {
					return err
				}
				return test.result(tx)
			})
			if test.want == nil {
				require.NoError(t, err, name)
			} else {
				require.ErrorContains(t, err, test.want.Error(), name)
			}
			require.Equal(t, 1, f.count(`SELECT COUNT(*) FROM notes`), name)
			require.Len(t, f.actions(), 1, name)
		}
		require.Empty(t, after)
	})
}

// The records and functions of an attempt that is repeated are dropped.
func TestChangeIsRepeated(t *testing.T) {
	each(t, []string{secret.Generate()}, func(t *testing.T, f fixture) {
		attempts, after := 0, 0
		require.NoError(t, f.Change(t.Context(), store.Change{Caller: admin}, func(tx *store.Tx) error {
			attempts++
			tx.Record(addNote.Record(tx.Caller.Event(), auditlog.None{}))
			tx.AfterCommit(func() { after++ })
			if attempts == 1 {
				return &pgconn.PgError{Code: "40001"} // a serialization failure
			}
			return nil
		}))
		require.Equal(t, 2, attempts)
		require.Equal(t, 1, after)
		require.Len(t, f.actions(), 1)
	})
}

func (f fixture) actions() (names []string) {
	for entry, err := range f.audit.Entries(f.t.Context(), "acme", auditlog.Filter{}, nil) {
		require.NoError(f.t, err)
		names = append(names, entry.Action)
	}
	return names
}

func TestCheckVersion(t *testing.T) {
	three := int64(3)
	require.NoError(t, store.CheckVersion(nil, 4))
	require.NoError(t, store.CheckVersion(&three, 3))
	require.ErrorIs(t, store.CheckVersion(&three, 4), wire.PreconditionFailed)
}

func TestNewRequiresItsParts(t *testing.T) {
	_, err := store.New(store.Config{})
	require.ErrorContains(t, err, "required")
}

var (
	keyColumn = store.Sealed{Table: "notes", Column: "key_enc", ID: "id", Bound: []string{"tenant_id"}, Unbound: true, Advice: "enter it again"}
	envColumn = store.Sealed{Table: "notes", Column: "env", ID: "id", Bound: []string{"tenant_id"}, Named: true, Unbound: true, Advice: "enter it again"}
)

// seal stores a row whose values are sealed for the places.
func (f fixture) seal(s *store.Store, id string, key, env []byte) {
	text, err := json.Marshal(map[string]string{"TOKEN": base64.StdEncoding.EncodeToString(s.Keyring.Seal([]byte("t-"+id), env))})
	require.NoError(f.t, err)
	_, err = f.DB.Write().ExecContext(f.t.Context(), `INSERT INTO notes (id, tenant_id, key_enc, env) VALUES ($1, 'acme', $2, $3)`,
		id, s.Keyring.Seal([]byte("k-"+id), key), string(text))
	require.NoError(f.t, err)
}

// open returns the values of a row.
func (f fixture) open(s *store.Store, id string) (key, env string) {
	var sealed []byte
	var text string
	require.NoError(f.t, f.Read().QueryRowContext(f.t.Context(), `SELECT key_enc, env FROM notes WHERE id = $1`, id).Scan(&sealed, &text))
	plain, err := s.Keyring.Open(sealed, keyColumn.Place(id, "acme"))
	require.NoError(f.t, err)
	values := map[string]string{}
	require.NoError(f.t, json.Unmarshal([]byte(text), &values))
	raw, err := base64.StdEncoding.DecodeString(values["TOKEN"])
	require.NoError(f.t, err)
	value, err := s.Keyring.Open(raw, envColumn.NamedPlace("TOKEN", id, "acme"))
	require.NoError(f.t, err)
	return string(plain), string(value)
}

func TestReseal(t *testing.T) {
	older, newer := secret.Generate(), secret.Generate()
	each(t, []string{older}, func(t *testing.T, f fixture) {
		ids := make([]string, 0, 150)
		for i := range 150 { // more than one batch
			id := string(rune('a'+i/26)) + string(rune('a'+i%26))
			ids = append(ids, id)
			f.seal(f.Store, id, keyColumn.Place(id, "acme"), envColumn.NamedPlace("TOKEN", id, "acme"))
		}
		both, only := f.with(f.DB, newer, older), f.with(f.DB, newer)
		n, err := both.Rebind(t.Context(), keyColumn, envColumn)
		require.NoError(t, err)
		require.Zero(t, n, "the values are bound")
		for _, want := range []int{300, 0} {
			n, err := both.Reseal(t.Context(), keyColumn, envColumn)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		for _, id := range ids {
			key, env := f.open(only, id)
			require.Equal(t, "k-"+id+" t-"+id, key+" "+env)
		}

		// With a keyring that cannot open them, nothing is sealed.
		n, err = f.Reseal(t.Context(), keyColumn, envColumn)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Contains(t, f.logs.String(), "a secret cannot be sealed again: enter it again")
		required := keyColumn
		required.Required = true
		_, err = f.Reseal(t.Context(), required)
		require.ErrorIs(t, err, secret.ErrUnknownKey)
		require.ErrorContains(t, err, "notes.key_enc")
	})
}

// A value that cannot be opened keeps no other one from being sealed, whatever is wrong with it.
func TestResealNextToADamagedValue(t *testing.T) {
	older, newer := secret.Generate(), secret.Generate()
	for name, damage := range map[string]string{
		"a value":       `UPDATE notes SET key_enc = '12' WHERE id = 'b'`,
		"a named value": `UPDATE notes SET env = '{"OTHER": "x", "TOKEN": "eA=="}' WHERE id = 'b'`,
		"an object":     `UPDATE notes SET env = 'x' WHERE id = 'b'`,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, []string{older}, func(t *testing.T, f fixture) {
				for _, id := range []string{"a", "b", "c"} {
					f.seal(f.Store, id, keyColumn.Place(id, "acme"), envColumn.NamedPlace("TOKEN", id, "acme"))
				}
				_, err := f.DB.Write().ExecContext(t.Context(), damage)
				require.NoError(t, err)
				required := keyColumn
				required.Required = true
				n, err := f.with(f.DB, newer, older).Reseal(t.Context(), required, envColumn)
				require.Equal(t, name == "a value", err != nil)
				require.Equal(t, 5, n)
				for _, id := range []string{"a", "c"} {
					key, env := f.open(f.with(f.DB, newer), id)
					require.Equal(t, "k-"+id+" t-"+id, key+" "+env)
				}
				require.Contains(t, f.logs.String(), "a secret cannot be sealed again: enter it again")
				require.Contains(t, f.logs.String(), `"id":"b"`)
			})
		})
	}
}

func TestRebind(t *testing.T) {
	key := secret.Generate()
	each(t, []string{key}, func(t *testing.T, f fixture) {
		f.seal(f.Store, "old", secret.AAD("notes", "key_enc", "old"), secret.AAD("notes", "env/TOKEN", "old"))
		bound := keyColumn
		bound.Unbound = false
		n, err := f.Rebind(t.Context(), bound)
		require.NoError(t, err)
		require.Zero(t, n, "earlier versions bound the values of the column")
		for _, want := range []int{2, 0} {
			n, err := f.Rebind(t.Context(), keyColumn, envColumn)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
		value, env := f.open(f.Store, "old")
		require.Equal(t, "k-old t-old", value+" "+env)
	})
}
