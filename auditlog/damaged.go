package auditlog

import "fmt"

// DamagedError reports that the data of a log is inconsistent, because it was lost or changed by
// other means than the store. The store changed nothing. [Verify] reports the extent.
// [Store.Entries] up to a snapshot returns the entries that are left.
type DamagedError struct {
	TenantID string
	ID       uint64 // an entry that is missing, changed or unexpected; 0 if it is unknown
}

func (e *DamagedError) Error() string {
	if e.ID == 0 {
		return fmt.Sprintf("the audit log of %q is damaged: verify it", e.TenantID)
	}
	return fmt.Sprintf("the audit log of %q is damaged at entry %d: verify it", e.TenantID, e.ID)
}
