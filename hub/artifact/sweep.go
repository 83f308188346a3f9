package artifact

import (
	"context"
	"time"
)

// Referenced reports which of some keys a row names. A key that is missing in the result is not
// named.
type Referenced func(ctx context.Context, keys []string) (map[string]bool, error)

// sweepBatch is the number of keys of one call of Referenced.
const sweepBatch = 500

// Sweep deletes the blobs that are older than grace and that no row names, and returns their
// number. The age is that of the last upload, by the clock of the driver, so that content that is
// uploaded while Sweep runs is not deleted. A caller that inserts a row confirms with [Store.Exist]
// afterwards that the blob is still there, and commits the upload again if it is not: on S3 a blob
// can be deleted in the moment in which it is uploaded.
func (s *Store) Sweep(ctx context.Context, grace time.Duration, referenced Referenced) (deleted int, err error) {
	before := s.cfg.Now().Add(-grace)
	var batch []string
	flush := func() error {
		named, err := referenced(ctx, batch)
		if err != nil {
			return err
		}
		for _, key := range batch {
			if named[key] {
				continue
			}
			if err := s.cfg.Driver.Delete(ctx, key, before); err != nil {
				return s.failed("delete artifact", err)
			}
			deleted++
		}
		batch = batch[:0]
		return nil
	}
	for _, kind := range []Kind{Tools, Skills} {
		for info, err := range s.cfg.Driver.List(ctx, string(kind)+"/") {
			if err != nil {
				return deleted, s.failed("list artifacts", err)
			}
			// Files that the store did not create are not touched.
			if _, ok := parseKey(info.Key); !ok || !info.Modified.Before(before) {
				continue
			}
			if batch = append(batch, info.Key); len(batch) == sweepBatch {
				if err := flush(); err != nil {
					return deleted, err
				}
			}
		}
	}
	if len(batch) > 0 {
		err = flush()
	}
	return deleted, err
}
