package migrate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Series is a named, numbered list of migrations. Each concern has one. The database stores which
// ones were applied, by name.
//
// Files holds all/NNNN_name.sql for both engines, and postgres/NNNN_name.sql and
// sqlite/NNNN_name.sql where their statements differ, numbered from 0001 without gaps. In all,
// ${bytes}, ${integer} and ${primary key} are BYTEA, BIGINT and PRIMARY KEY on PostgreSQL, and
// BLOB, INTEGER and NOT NULL PRIMARY KEY on SQLite. Each file is applied once and may hold several
// statements. All migrations of all series run in one transaction: statements that cannot run in
// one (CREATE INDEX CONCURRENTLY, VACUUM) are not supported. An applied file must not be changed:
// the database stores its checksum.
type Series struct {
	Name  string
	Files fs.FS
}

type migration struct {
	version   int
	name      string // of the file
	statement string
	checksum  string
}

var (
	seriesName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	fileName   = regexp.MustCompile(`^([0-9]{4})_[a-z0-9_]+\.sql$`)
)

func (s Series) migrations(engine string) ([]migration, error) {
	all, err := s.read(engine)
	if err != nil {
		return nil, fmt.Errorf("read migrations %q: %w", s.Name, err)
	}

	return all, nil
}

func (s Series) read(engine string) ([]migration, error) {
	if !seriesName.MatchString(s.Name) {
		return nil, errors.New("the name of a series must consist of lower-case letters, digits and _")
	}

	if s.Files == nil {
		return nil, errors.New("the series has no files")
	}

	var all []migration
	for _, dir := range []string{"all", engine} {
		entries, err := fs.ReadDir(s.Files, dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}

		for _, e := range entries {
			m, err := s.readFile(dir, e, engine)
			if err != nil {
				return nil, err
			}

			all = append(all, m)
		}
	}

	if len(all) == 0 {
		return nil, fmt.Errorf("no files in all and %s", engine)
	}

	slices.SortStableFunc(all, func(a, b migration) int { return cmp.Compare(a.version, b.version) })
	for i, m := range all {
		if m.version != i+1 {
			return nil, fmt.Errorf("%s has the place of number %04d: numbers start at 0001, without gaps and repetitions", m.name, i+1)
		}
	}

	return all, nil
}

// readFile returns the migration for an engine. The checksum is that of its statements.
func (s Series) readFile(dir string, e fs.DirEntry, engine string) (migration, error) {
	name := path.Join(dir, e.Name())
	parts := fileName.FindStringSubmatch(e.Name())
	if parts == nil || e.IsDir() {
		return migration{}, fmt.Errorf("%s is not a file with a name like 0001_users.sql", name)
	}

	content, err := fs.ReadFile(s.Files, name)
	if err != nil {
		return migration{}, err
	}

	version, err := strconv.Atoi(parts[1])
	if err != nil {
		return migration{}, err
	}

	text := strings.ReplaceAll(string(content), "\r\n", "\n") // git may have converted the line ends on Windows
	if dir == "all" {
		words := []string{"${bytes}", "BLOB", "${integer}", "INTEGER", "${primary key}", "NOT NULL PRIMARY KEY"}
		if engine == postgres {
			words = []string{"${bytes}", "BYTEA", "${integer}", "BIGINT", "${primary key}", "PRIMARY KEY"}
		}

		text = strings.NewReplacer(words...).Replace(text)
	}

	sum := sha256.Sum256([]byte(text))
	return migration{version: version, name: e.Name(), statement: text, checksum: hex.EncodeToString(sum[:])}, nil
}
