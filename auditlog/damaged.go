package auditlog

import "fmt"

// DamagedError tells that what a store keeps of a log does not fit together, because something else than the store wrote there or
// a part of it was lost. The store changed nothing. [Verify] tells what is left, and [Store.Entries] up to a snapshot gives it.
type DamagedError struct {
	TenantID string
	ID       uint64 // an entry that is missing, is not what was written, or stands where none was; 0 where none is known
}

func (e *DamagedError) Error() string {
	if e.ID == 0 {
		return fmt.Sprintf("the audit log of %q is damaged: verify it", e.TenantID)
	}
	return fmt.Sprintf("the audit log of %q is damaged at entry %d: verify it", e.TenantID, e.ID)
}
