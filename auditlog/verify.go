package auditlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// Verification is what a check of a chain found.
type Verification struct {
	OK       bool   `json:"ok"`
	Checked  uint64 `json:"checked"`       // how many entries were found as they were written
	HeadID   uint64 `json:"headId,string"` // 0 where nothing was ever written
	HeadHash string `json:"headHash"`      // hexadecimal; note it elsewhere, with the id

	// FirstBadID is the first entry that is not what was written there, is missing, or stands where nothing was written yet;
	// 0 where OK. It is one more than HeadID, or than the last id by then, where all entries are good and something that the
	// store keeps beside them is not.
	FirstBadID uint64 `json:"firstBadId,string,omitempty"`
}

// Verify computes the chain of a tenant's log again, from the checkpoint to the head as it is when Verify begins. Heads
// noted earlier are compared as well: they show a log that was written anew from some entry on. One that lies before
// the checkpoint is an error, since nothing is left to compare it with; the zero Head tells nothing, and is none. What the
// store keeps beside the entries is checked by the store, see [Store.Entries]. Entries that others append meanwhile are
// not checked, and are no fault.
func Verify(ctx context.Context, s Store, tenantID string, noted ...Head) (Verification, error) {
	for {
		v, from, err := verify(ctx, s, tenantID, noted)
		if err != nil {
			return Verification{}, fmt.Errorf("verify log: %w", err)
		}
		if v.OK {
			return v, nil
		}
		now, err := s.Checkpoint(ctx, tenantID)
		if err != nil {
			return Verification{}, fmt.Errorf("verify log: %w", err)
		}
		if now.ID == from {
			return v, nil
		}
		// Entries were pruned meanwhile and may be what was missing.
	}
}

func verify(ctx context.Context, s Store, tenantID string, noted []Head) (v Verification, from uint64, err error) {
	last, err := s.Checkpoint(ctx, tenantID) // before the head, which is then not below it
	if err != nil {
		return v, 0, err
	}
	head, err := s.Head(ctx, tenantID)
	if err != nil {
		return v, 0, err
	}
	from = last.ID
	v = Verification{HeadID: head.ID, HeadHash: hex.EncodeToString(linkOf(head))}
	known := make(map[uint64][]byte, len(noted)+1)
	for _, n := range noted {
		switch hash, twice := known[n.ID]; {
		case n.ID == 0 && n.Hash == nil: // nothing was written by then, which holds for any log
		case n.ID < from:
			return v, 0, fmt.Errorf("the noted entry %d was pruned", n.ID)
		case n.ID > head.ID: // the log was longer once
			v.FirstBadID = head.ID + 1
		case twice && !bytes.Equal(hash, linkOf(n)):
			return v, 0, fmt.Errorf("entry %d was noted with two hashes", n.ID)
		default:
			known[n.ID] = linkOf(n)
		}
	}
	v.Checked, v.FirstBadID, err = walk(ctx, s, tenantID, last, head, known, v.FirstBadID)
	v.OK = v.FirstBadID == 0
	return v, from, err
}

// walk goes from last to head, and stops at the first entry that does not follow.
func walk(ctx context.Context, s Store, tenantID string, last, head Head, known map[uint64][]byte, lost uint64) (checked, bad uint64, err error) {
	fits := func(h Head) bool {
		want, noted := known[h.ID]
		return (!noted || bytes.Equal(want, linkOf(h))) &&
			(h.ID != head.ID || bytes.Equal(linkOf(head), linkOf(h)) && h.CreatedAt.Equal(head.CreatedAt))
	}
	from := last.ID
	if !fits(last) {
		return 0, max(from, 1), nil
	}
	above := head.ID // the last entry that was read
	for e, err := range s.Entries(ctx, tenantID, Filter{}, nil) {
		var damaged *DamagedError
		switch {
		case errors.As(err, &damaged):
			bad = cmp.Or(damaged.ID, last.ID+1)
			if bad > from {
				checked = min(checked, bad-from-1)
			}
			return checked, min(bad, cmp.Or(lost, bad)), nil
		case err != nil:
			return 0, 0, err
		case e.ID <= from:
			return checked, max(e.ID, 1), nil
		case last.ID == head.ID && e.ID > head.ID:
			above = max(above, e.ID)
			continue
		case e.ID != last.ID+1 || e.TenantID != tenantID:
			return checked, last.ID + 1, nil
		case !bytes.Equal(e.Hash, e.Sum(linkOf(last))), e.CreatedAt.Before(last.CreatedAt), !fits(e.Head()):
			return checked, e.ID, nil
		}
		last = e.Head()
		checked++
	}
	if last.ID != head.ID {
		return checked, last.ID + 1, nil
	}
	if above > head.ID && lost == 0 {
		now, err := s.Head(ctx, tenantID)
		if err != nil {
			return 0, 0, err
		}
		if above > now.ID { // it was not appended, or the head would be there
			lost = now.ID + 1
		}
	}
	return checked, lost, nil
}

// linkOf is what the entry after h is hashed with.
func linkOf(h Head) []byte {
	if h.Hash == nil {
		return make([]byte, sha256.Size)
	}
	return h.Hash
}
