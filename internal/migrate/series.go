package migrate

import (
	"bytes"
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
)

// Series is a named, numbered list of migrations. Each concern has one. The database stores which
// ones were applied, by name.
//
// Files holds postgres/NNNN_name.sql and sqlite/NNNN_name.sql, numbered from 0001 without gaps.
// Each file is applied once and may hold several statements. All migrations of all series run in
// one transaction: statements that cannot run in one (CREATE INDEX CONCURRENTLY, VACUUM) are not
// supported. An applied file must not be changed: the database stores its checksum.
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
	entries, err := fs.ReadDir(s.Files, engine)
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, e := range entries {
		parts := fileName.FindStringSubmatch(e.Name())
		if parts == nil || e.IsDir() {
			return nil, fmt.Errorf("%s/%s is not a file with a name like 0001_users.sql", engine, e.Name())
		}
		content, err := fs.ReadFile(s.Files, path.Join(engine, e.Name()))
		if err != nil {
			return nil, err
		}
		version, err := strconv.Atoi(parts[1])
		if err != nil {
			return nil, err
		}
		content = bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")) // git may have converted the line ends on Windows
		sum := sha256.Sum256(content)
		all = append(all, migration{version, e.Name(), string(content), hex.EncodeToString(sum[:])})
	}
	slices.SortStableFunc(all, func(a, b migration) int { return cmp.Compare(a.version, b.version) })
	for i, m := range all {
		if m.version != i+1 {
			return nil, fmt.Errorf("%s/%s has the place of number %04d: numbers start at 0001, without gaps and repetitions",
				engine, m.name, i+1)
		}
	}
	return all, nil
}
