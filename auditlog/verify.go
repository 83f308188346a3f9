package auditlog

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
)

// Verification is the result of [Verify].
type Verification struct {
	OK       bool   `json:"ok"`
	Checked  uint64 `json:"checked"`        // number of entries that are as they were written
	FirstID  uint64 `json:"firstId,string"` // the oldest entry of the log; 0 if there is none
	HeadID   uint64 `json:"headId,string"`  // the newest; 0 if nothing was ever written
	HeadHash string `json:"headHash"`       // hexadecimal; record it elsewhere, together with HeadID

	// Checkpoint is the last pruned entry; nil if nothing was pruned.
	Checkpoint *Head `json:"checkpoint,omitempty"`

	// FirstBadID is the first entry that is not as it was written, is missing, or exists where
	// nothing was written. It is one more than HeadID if all entries are intact and data that the
	// store keeps about them is not. It is 0 if OK, and if Reason is head_pruned.
	FirstBadID uint64 `json:"firstBadId,string,omitempty"`

	// Reason is "" if OK, or one of
	//
	//   - entry_changed, entry_missing, entry_added: FirstBadID is the entry.
	//   - log_damaged: the store reports damage at or after FirstBadID.
	//   - head_changed: the stored head does not match the newest entry.
	//   - pruning_unexplained: the oldest entries are missing, and no recorded pruning explains it.
	//   - head_mismatch: a given head has another hash than the entry with its id.
	//   - head_in_future: a given head has a higher id than the newest entry. The log was longer once.
	//   - head_pruned: a given head is before the checkpoint, and cannot be compared.
	Reason string `json:"reason,omitempty"`
}

// The values of Verification.Reason.
const (
	entryChanged       = "entry_changed"
	entryMissing       = "entry_missing"
	entryAdded         = "entry_added"
	logDamaged         = "log_damaged"
	headChanged        = "head_changed"
	pruningUnexplained = "pruning_unexplained"
	headMismatch       = "head_mismatch"
	headInFuture       = "head_in_future"
	headPruned         = "head_pruned"
)

// Verify computes the chain of a tenant's log again, from the checkpoint to the head at the time of
// the call, and compares it with heads that were recorded earlier. Such a head detects a log that
// was rewritten from some entry on, including its later hashes. The zero Head is ignored. Oldest
// entries may be missing only if a chained entry records their pruning, see [Pruning]. Entries that
// are appended or pruned during the call are not reported.
func Verify(ctx context.Context, s Store, tenantID string, heads ...Head) (Verification, error) {
	for {
		v, err := verify(ctx, s, tenantID, heads)
		if err != nil {
			return Verification{}, fmt.Errorf("verify audit log: %w", err)
		}

		if v.OK {
			return v, nil
		}

		now, err := s.Checkpoint(ctx, tenantID)
		if err != nil {
			return Verification{}, fmt.Errorf("verify audit log: %w", err)
		}

		if v.Checkpoint == nil && now.ID == 0 || v.Checkpoint != nil && now.ID == v.Checkpoint.ID {
			return v, nil
		}

		// Entries were pruned during the verification. They may be the missing ones.
	}
}

func verify(ctx context.Context, s Store, tenantID string, heads []Head) (Verification, error) {
	checkpoint, err := s.Checkpoint(ctx, tenantID) // before the head, which is then not below it
	if err != nil {
		return Verification{}, err
	}

	head, err := s.Head(ctx, tenantID)
	if err != nil {
		return Verification{}, err
	}

	c := &chainCheck{
		tenantID: tenantID, checkpoint: checkpoint, head: head, heads: heads, last: checkpoint, above: head.ID,
		v: Verification{HeadID: head.ID, HeadHash: hex.EncodeToString(head.link())},
	}
	if checkpoint.ID > 0 {
		c.v.Checkpoint = &checkpoint
	}

	intact, err := c.walk(s.Entries(ctx, tenantID, Filter{}, nil))
	if err != nil {
		return Verification{}, err
	}

	if intact && c.above > head.ID {
		if head, err = s.Head(ctx, tenantID); err != nil {
			return Verification{}, err
		}

		if c.above > head.ID { // it was not appended during the walk: the head would have moved
			c.fail(head.ID+1, entryAdded)
		}
	}

	if intact {
		c.checkPruning()
	}

	c.checkHeads()
	c.v.OK = c.v.Reason == ""
	return c.v, nil
}

// chainCheck is one pass over a log.
type chainCheck struct {
	tenantID         string
	checkpoint, head Head
	heads            []Head // given by the caller
	last             Head   // the last entry that matches
	above            uint64 // the highest id that was read, if it is above head
	explained        uint64 // a recorded pruning deleted the entries up to this one
	v                Verification
}

// fail records the failure at the lowest entry.
func (c *chainCheck) fail(id uint64, reason string) {
	if c.v.Reason == "" || id < c.v.FirstBadID {
		c.v.FirstBadID, c.v.Reason = id, reason
	}
}

// walk follows the chain, and reports whether it reached the head.
func (c *chainCheck) walk(entries iter.Seq2[Entry, error]) (bool, error) {
	if reason := c.compare(c.last); reason != "" {
		c.fail(max(c.last.ID, 1), reason)
		return false, nil
	}

	for e, err := range entries {
		if damaged, ok := errors.AsType[*DamagedError](err); ok {
			c.damaged(damaged.ID)
			return false, nil
		}

		if err != nil {
			return false, err
		}

		if c.v.FirstID == 0 {
			c.v.FirstID = e.ID
		}

		if c.last.ID == c.head.ID && e.ID > c.head.ID {
			c.above = max(c.above, e.ID)
			continue
		}

		if id, reason := c.follow(e); reason != "" {
			c.fail(id, reason)
			return false, nil
		}
	}

	if c.last.ID != c.head.ID {
		c.fail(c.last.ID+1, entryMissing)
		return false, nil
	}

	return true, nil
}

// follow compares an entry with the one before it, and makes it the last one. It returns the id
// and the reason of a failure, or no reason.
func (c *chainCheck) follow(e Entry) (uint64, string) {
	switch {
	case e.ID <= c.checkpoint.ID:
		return max(e.ID, 1), entryAdded
	case e.ID > c.last.ID+1:
		return c.last.ID + 1, entryMissing
	case e.ID <= c.last.ID:
		return c.last.ID + 1, entryAdded
	case e.TenantID != c.tenantID, e.CreatedAt.Before(c.last.CreatedAt), !bytes.Equal(e.Hash, e.Sum(c.last.link())):
		return e.ID, entryChanged
	}

	if reason := c.compare(e.Head()); reason != "" {
		return e.ID, reason
	}

	if deleted, ok := explains(e); ok && c.isCheckpoint(deleted) {
		c.explained = max(c.explained, deleted.ID)
	}

	c.last = e.Head()
	c.v.Checked++
	return 0, ""
}

// isCheckpoint reports whether a recorded checkpoint fits the stored one. A pruning that was
// interrupted, or still runs, has deleted only some of the entries that it recorded.
func (c *chainCheck) isCheckpoint(recorded Head) bool {
	return recorded.ID != c.checkpoint.ID || bytes.Equal(recorded.link(), c.checkpoint.link())
}

// compare compares an entry with the heads that have its id. It returns the reason of a failure,
// or "".
func (c *chainCheck) compare(h Head) string {
	if h.ID == c.head.ID && (!bytes.Equal(h.link(), c.head.link()) || !h.CreatedAt.Equal(c.head.CreatedAt)) {
		return headChanged
	}

	for _, given := range c.heads {
		if given.ID == h.ID && !bytes.Equal(given.link(), h.link()) {
			return headMismatch
		}
	}

	return ""
}

// damaged records damage that the store reports at an entry, or at the next one if id is 0.
func (c *chainCheck) damaged(id uint64) {
	if id == 0 {
		id = c.last.ID + 1
	}

	c.fail(id, logDamaged)
	if id > c.checkpoint.ID {
		c.v.Checked = min(c.v.Checked, id-c.checkpoint.ID-1)
	}
}

func (c *chainCheck) checkPruning() {
	if c.explained < c.checkpoint.ID {
		c.fail(c.explained+1, pruningUnexplained)
	}
}

func (c *chainCheck) checkHeads() {
	for _, given := range c.heads {
		switch {
		case given.ID == 0 && given.Hash == nil:
		case given.ID > c.head.ID:
			c.fail(c.head.ID+1, headInFuture)
		case given.ID < c.checkpoint.ID && c.v.Reason == "":
			c.v.Reason = headPruned
		}
	}
}
