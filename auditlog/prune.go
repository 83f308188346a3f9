package auditlog

import (
	"encoding/json"
	"strings"
	"time"
)

// Pruning is the detail of the entry that records a pruning. The action is declared by the caller,
// with the verb prune_audit:
//
//	var pruneAudit = auditlog.Define[auditlog.Pruning]("auth.prune_audit")
//
// [Store.Prune] appends the entry in the transaction that deletes the first entries. [Verify]
// reports a log whose oldest entries are missing unless such an entry explains it.
type Pruning struct {
	Entries          uint64    `json:"entries"`          // number of deleted entries
	Before           time.Time `json:"before"`           // they were created before this time
	RetentionSeconds int64     `json:"retentionSeconds"` // rounded down
	Checkpoint       Head      `json:"checkpoint"`       // the last of them
}

const pruneVerb = "prune_audit"

func isPruning(action string) bool { return strings.HasSuffix(action, "."+pruneVerb) }

// clockStep is how far a clock may be set back between the begin of a pruning and the write of its
// entry.
const clockStep = time.Minute

// explains returns the checkpoint that the entry of a pruning records. It reports false for any
// other entry, and for a pruning that its own retention does not justify.
func explains(e Entry) (Head, bool) {
	var p Pruning
	if !isPruning(e.Action) || json.Unmarshal(e.Detail, &p) != nil {
		return Head{}, false
	}
	old := e.CreatedAt.Add(clockStep - time.Duration(p.RetentionSeconds)*time.Second)
	return p.Checkpoint, p.Checkpoint.ID < e.ID && p.Checkpoint.CreatedAt.Before(p.Before) && !p.Before.After(old)
}
