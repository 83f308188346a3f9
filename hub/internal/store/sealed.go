package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Sealed is a column of sealed values. Each value is bound to its column, its row and the values of
// other columns: it cannot be opened in another row.
type Sealed struct {
	Table, Column string
	ID            string   // the column that identifies a row
	Bound         []string // further columns that a value is bound to, such as tenant_id

	// Named is true for a JSON object whose values are sealed one by one, in base64. Each is also
	// bound to its name.
	Named bool

	// Normal returns the values of Bound as a value is bound to them, in the same order, such as the
	// origin of an address. Defaults to the values.
	Normal func(bound []string) []string

	// Unbound is true if earlier versions of the program bound values only to the first ones of Bound,
	// or to none.
	Unbound bool

	// Required is true if the hub does not work without the values. [Store.Reseal] then fails for a
	// value that cannot be opened, after it has sealed all others. Otherwise, the value is logged with
	// Advice.
	Required bool
	Advice   string
}

// Place returns the place of a value, to seal and to open it. bound are the values of the columns
// of Bound.
func (c Sealed) Place(id string, bound ...string) []byte {
	return secret.AAD(c.Table, c.Column, id, c.normal(bound)...)
}

func (c Sealed) normal(bound []string) []string {
	if c.Normal == nil {
		return bound
	}

	return c.Normal(bound)
}

// NamedPlace is [Sealed.Place] for a value of a JSON object.
func (c Sealed) NamedPlace(name, id string, bound ...string) []byte {
	return secret.AAD(c.Table, c.Column+"/"+name, id, c.normal(bound)...)
}

// resealBatch is the number of rows that are read at once.
const resealBatch = 100

// Reseal seals all values of the columns with the first key of the keyring, and returns how many
// were sealed with another one. A value that cannot be opened stays as it is, and keeps no other
// one from being sealed. Hubs may serve the database in the meantime.
func (s *Store) Reseal(ctx context.Context, columns ...Sealed) (int, error) {
	return s.resealAll(ctx, s.Keyring.Reseal, columns)
}

// Rebind binds the values that an earlier version of the program sealed to the columns of Bound,
// and returns their number. Nothing else opens them. Call it before the concerns are used.
func (s *Store) Rebind(ctx context.Context, columns ...Sealed) (int, error) {
	var unbound []Sealed
	for _, c := range columns {
		if c.Unbound {
			unbound = append(unbound, c)
		}
	}

	return s.resealAll(ctx, s.Keyring.Rebind, unbound)
}

type reseal func(sealed, place []byte, former ...[]byte) ([]byte, error)

func (s *Store) resealAll(ctx context.Context, do reseal, columns []Sealed) (int, error) {
	total := 0
	var failed error
	for _, c := range columns {
		n, err := s.resealColumn(ctx, do, c)
		total += n
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("seal %s.%s: %w", c.Table, c.Column, err))
		}
	}

	return total, failed
}

// resealColumn reads the rows by their ids. A row that is changed in the meantime is read again.
// The error is that of the last value that cannot be opened, if the values are required.
func (s *Store) resealColumn(ctx context.Context, do reseal, c Sealed) (int, error) {
	total := 0
	var failed error
	for after := ""; ; {
		rows, err := sealedRows(ctx, s.DB.Write(), c, after)
		if err != nil || len(rows) == 0 {
			return total, errors.Join(failed, err)
		}

		for _, row := range rows {
			fresh, n, err := resealRow(do, c, row)
			if err != nil {
				s.Logger.ErrorContext(ctx, "a secret cannot be sealed again: "+c.Advice, "table", c.Table, "column", c.Column, "id", row.id, "err", err)
			}

			if err != nil && c.Required {
				failed = fmt.Errorf("row %s: %w", row.id, err)
			}

			if n > 0 {
				replaced, err := s.replaceSealed(ctx, c, row, fresh)
				if err != nil {
					return total, err
				}

				if !replaced {
					break
				}

				total += n
			}

			after = row.id
		}
	}
}

type sealedRow struct {
	id    string
	value []byte
	bound []string
}

// resealRow returns the new content of a row, and how many of its values are new. The error is that
// of values that stay as they are, because they cannot be opened.
func resealRow(do reseal, c Sealed, row sealedRow) ([]byte, int, error) {
	if !c.Named {
		fresh, err := resealValue(do, c, row, row.value, "")
		if fresh == nil {
			return nil, 0, err
		}

		return fresh, 1, err
	}

	values := map[string]string{}
	if err := json.Unmarshal(row.value, &values); err != nil {
		return nil, 0, err
	}

	n := 0
	var failed error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		sealed, err := base64.StdEncoding.DecodeString(values[name])
		if err != nil {
			sealed = []byte(values[name]) // it cannot be opened either
		}

		one, err := resealValue(do, c, row, sealed, name)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("value %s: %w", name, err))
		}

		if one != nil {
			values[name] = base64.StdEncoding.EncodeToString(one)
			n++
		}
	}

	fresh, err := json.Marshal(values)
	return fresh, n, errors.Join(failed, err)
}

// resealValue returns a new value, or nil if the value stays as it is.
func resealValue(do reseal, c Sealed, row sealedRow, sealed []byte, name string) ([]byte, error) {
	column := c.Column
	if c.Named {
		column += "/" + name
	}

	bound := c.normal(row.bound)
	place := secret.AAD(c.Table, column, row.id, bound...)
	var former [][]byte
	for n := range bound {
		if c.Unbound {
			former = append(former, secret.AAD(c.Table, column, row.id, bound[:n]...))
		}
	}

	return do(sealed, place, former...)
}

// sealedRows returns the next rows that have a value.
func sealedRows(ctx context.Context, q db.Querier, c Sealed, after string) ([]sealedRow, error) {
	columns := strings.Join(append([]string{c.ID, c.Column}, c.Bound...), ", ")
	return db.Collect(ctx, q, "read sealed values", func(row db.Scanner) (r sealedRow, err error) {
		r.bound = make([]string, len(c.Bound))
		dest := []any{&r.id, &r.value}
		for i := range r.bound {
			dest = append(dest, &r.bound[i])
		}

		err = row.Scan(dest...)
		return r, err
	}, `SELECT `+columns+` FROM `+c.Table+` WHERE `+c.ID+` > $1 AND `+c.Column+` IS NOT NULL ORDER BY `+c.ID+` LIMIT $2`, after, resealBatch)
}

// KeyIDs returns the ids of the keys with which the values of the columns are sealed, sorted.
func KeyIDs(ctx context.Context, q db.Querier, columns ...Sealed) ([]string, error) {
	ids := map[string]bool{}
	for _, c := range columns {
		for after := ""; ; {
			rows, err := sealedRows(ctx, q, c, after)
			if err != nil {
				return nil, fmt.Errorf("read keys of %s.%s: %w", c.Table, c.Column, err)
			}

			if len(rows) == 0 {
				break
			}

			for _, row := range rows {
				for _, sealed := range c.values(row) {
					ids[secret.KeyID(sealed)] = true
				}

				after = row.id
			}
		}
	}

	delete(ids, "") // values that no key opens
	return slices.Sorted(maps.Keys(ids)), nil
}

// values returns the sealed values of a row, without those that no program sealed.
func (c Sealed) values(row sealedRow) [][]byte {
	if !c.Named {
		return [][]byte{row.value}
	}

	var texts map[string]string
	if json.Unmarshal(row.value, &texts) != nil {
		return nil
	}

	var all [][]byte
	for _, text := range texts {
		if value, err := base64.StdEncoding.DecodeString(text); err == nil {
			all = append(all, value)
		}
	}

	return all
}

// replaceSealed replaces the value of a row, unless it was changed in the meantime.
func (s *Store) replaceSealed(ctx context.Context, c Sealed, row sealedRow, fresh []byte) (bool, error) {
	former, value := any(row.value), any(fresh)
	if c.Named { // the column is TEXT
		former, value = string(row.value), string(fresh)
	}

	n, err := db.Affected(ctx, s.DB.Write(), "seal again",
		`UPDATE `+c.Table+` SET `+c.Column+` = $1 WHERE `+c.ID+` = $2 AND `+c.Column+` = $3`, value, row.id, former)
	return n > 0, err
}
