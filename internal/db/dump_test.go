package db_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

func letters() db.Series {
	return series("letters", "CREATE TABLE letters (id BIGINT NOT NULL, body TEXT NOT NULL); CREATE INDEX letters_body ON letters (body)")
}

// write writes one transaction of many pages.
func write(t *testing.T, d *db.DB, body string, rows int) {
	t.Helper()
	require.NoError(t, d.Tx(t.Context(), func(tx *sql.Tx) error {
		for n := range rows {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO letters (id, body) VALUES ($1, $2)", n, body); err != nil {
				return err
			}
		}
		return nil
	}))
}

func count(t *testing.T, q db.Querier) int {
	t.Helper()
	n, err := db.Value[int](t.Context(), q, "count", "SELECT COUNT(*) FROM letters")
	require.NoError(t, err)
	return n
}

// writes calls before before each write.
type writes struct {
	before func() error
	text   bytes.Buffer
}

func (w *writes) Write(p []byte) (int, error) {
	if err := w.before(); err != nil {
		return 0, err
	}
	return w.text.Write(p)
}

func load(t *testing.T, engine db.Engine, dump *writes) *db.DB {
	t.Helper()
	url := dbtest.SQLite(t)
	if engine == db.PostgreSQL {
		url = pgtest.URL(t)
	}
	require.NoError(t, db.Load(t.Context(), db.Config{URL: url}, dbtest.Programs(t), &dump.text))
	return dbtest.Open(t, url)
}

// Others write all the time, more than the log holds before it is copied to the file, and are never
// blocked.
func TestADumpIsTheStateThatWasRead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url)
		write(t, d, strings.Repeat("first", 100), 3000)
		other := dbtest.Open(t, url)
		var read, n int
		dump := &writes{before: func() error {
			if n++; n < 20 {
				write(t, []*db.DB{d, other}[n%2], strings.Repeat("later", 1000), 300)
			}
			return nil
		}}
		require.NoError(t, d.Dump(t.Context(), dbtest.Programs(t), dump, func(q db.Querier) error {
			read = count(t, q)
			write(t, other, "later", 1)
			require.Equal(t, read, count(t, q))
			return nil
		}))
		require.Equal(t, 3000, read)
		loaded := load(t, d.Engine(), dump)
		require.Equal(t, 3000, count(t, loaded.Read()))
		require.Greater(t, count(t, d.Read()), 3000)
		later, err := db.Value[int](t.Context(), loaded.Read(), "search", "SELECT COUNT(*) FROM letters WHERE body LIKE 'later%'")
		require.NoError(t, err)
		require.Zero(t, later)
	}, letters())
}

func TestADumpFailsWithItsWriter(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url)
		full := errors.New("planted: disk full")
		err := d.Dump(t.Context(), dbtest.Programs(t), &writes{before: func() error { return full }}, func(db.Querier) error { return nil })
		require.ErrorIs(t, err, full)
		require.EqualError(t, err, "dump database: write dump: planted: disk full")
		write(t, d, "after it", 1)
	}, letters())
}

func TestADumpEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, url)
		write(t, d, strings.Repeat("letter", 1000), 300)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		stopped := errors.New("planted: stopped")
		err := d.Dump(ctx, dbtest.Programs(t), &writes{before: func() error { cancel(stopped); return nil }}, func(db.Querier) error { return nil })
		require.ErrorIs(t, err, stopped)
		write(t, d, "after it", 1)
	}, letters())
}

// The pages of a dump are copied: what was deleted must not be in them.
func TestADumpHasNothingThatWasDeleted(t *testing.T) {
	t.Parallel()
	url := dbtest.SQLite(t, letters())
	d := dbtest.Open(t, url)
	for _, size := range []int{1, 20, 500, 3000} { // from many rows in a page to many pages of a row
		write(t, d, strings.Repeat("SECRET", size), 50)
		write(t, d, strings.Repeat("other", size), 50)
	}
	run(t, d, "UPDATE letters SET body = 'changed' WHERE id < 10")
	run(t, d, "DELETE FROM letters WHERE id % 2 = 1")
	run(t, d, "DELETE FROM letters WHERE body LIKE 'SECRET%'")
	write(t, d, strings.Repeat("new", 2000), 20)
	dump := &writes{before: func() error { return nil }}
	require.NoError(t, d.Dump(t.Context(), db.Programs{}, dump, func(db.Querier) error { return nil }))
	require.Contains(t, dump.text.String(), "otherother")
	require.NotContains(t, dump.text.String(), "SECRET")
}

func TestADamagedDatabaseIsNotDumped(t *testing.T) {
	t.Parallel()
	const page = 4096
	for name, damage := range map[string]func(f *os.File, pages int64) error{
		"zeros in all pages after the first": func(f *os.File, pages int64) error {
			_, err := f.WriteAt(make([]byte, (pages-1)*page), page)
			return err
		},
		"a page": func(f *os.File, pages int64) error {
			_, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, page), pages/2*page)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := dbtest.SQLite(t, letters())
			d, err := db.Open(t.Context(), db.Config{URL: url})
			require.NoError(t, err)
			write(t, d, strings.Repeat("letter", 10), 3000)
			require.NoError(t, d.Close())
			f, err := os.OpenFile(strings.TrimPrefix(url, "sqlite://"), os.O_RDWR, 0)
			require.NoError(t, err)
			defer f.Close()
			info, err := f.Stat()
			require.NoError(t, err)
			require.NoError(t, damage(f, info.Size()/page))

			d = dbtest.Open(t, url)
			dump := &writes{before: func() error { return nil }}
			err = d.Dump(t.Context(), db.Programs{}, dump, func(db.Querier) error { return nil })
			require.Error(t, err)
			require.Regexp(t, "the file is damaged: |database disk image is malformed", fmt.Sprint(err))
			require.Zero(t, dump.text.Len())
		})
	}
}
