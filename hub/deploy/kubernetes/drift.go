package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// drift returns the first field of a spec that is not the one that was applied, and who manages it,
// or "". The lists of a Service are complete, and a NetworkPolicy is equal: any other field may
// make it wider.
func drift(u *unstructured.Unstructured) string {
	kind := u.GetKind()
	text, recorded := u.GetAnnotations()[noteApplied]
	how := complete
	switch {
	case !recorded && kind == "Pod":
		return ""
	case kind == "NetworkPolicy":
		how = equal
	case kind == "Deployment":
		how = extended
	}

	path := difference(plain(u.Object["spec"]), plain(json.RawMessage(text)), how, []step{{name: "spec"}})
	if path == nil {
		return ""
	}

	return fmt.Sprintf("%s of the %s, %s", short(pathText(path)), kind, managerOf(u, path))
}

// comparison is how a spec of the cluster is compared with the one that was applied.
type comparison int

const (
	extended comparison = iota // others may add fields and elements of lists
	complete                   // lists and selectors have no more elements
	equal
)

// step is a part of the path of a field: its name, or an element of a list.
type step struct {
	name    string
	index   int
	element fields // nil for a name
}

// difference returns the path of the first field that a decoded JSON value does not have as it is
// wanted, or nil.
func difference(have, want any, how comparison, path []step) []step {
	switch want := want.(type) {
	case fields:
		have, ok := have.(fields)
		if !ok {
			return path
		}

		for _, name := range slices.Sorted(maps.Keys(want)) {
			next := append(slices.Clip(path), step{name: name})
			selects := how == complete && (name == "selector" || name == "matchLabels") // one more label selects other pods
			if selects && !reflect.DeepEqual(have[name], want[name]) {
				return next
			}

			if found := difference(have[name], want[name], how, next); found != nil {
				return found
			}
		}

		for _, name := range slices.Sorted(maps.Keys(have)) {
			if _, wanted := want[name]; how == equal && !wanted {
				return append(slices.Clip(path), step{name: name})
			}
		}

		return nil
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) < len(want) || how != extended && len(have) != len(want) {
			return path
		}

		for i, value := range want {
			value, composed := value.(fields)
			if !composed {
				if !reflect.DeepEqual(have, any(want)) {
					return path
				}

				return nil
			}

			if found := differentElement(have, i, value, how, path); found != nil {
				return found
			}
		}

		return nil
	}

	if reflect.DeepEqual(have, want) || have == nil && want == false { // the API server omits it
		return nil
	}

	return path
}

// differentElement is difference for the element of a list that should be at an index. In a list
// that others may extend, it may be anywhere.
func differentElement(have []any, index int, want fields, how comparison, path []step) []step {
	if how == extended {
		for i, one := range have {
			one, _ := one.(fields)
			if difference(one, want, how, path) == nil {
				return nil
			}

			if name := want["name"]; name != nil && one["name"] == name {
				index = i
			}
		}
	}

	next := step{index: index, element: want}
	one, _ := have[index].(fields)
	if one != nil {
		next.element = one
	}

	return difference(one, want, how, append(slices.Clip(path), next))
}

// pathText returns the path of a field as in spec.containers[runtime].image.
func pathText(path []step) string {
	var text strings.Builder
	for i, s := range path {
		switch {
		case s.element != nil:
			fmt.Fprintf(&text, "[%v]", cmp.Or(s.element["name"], any(s.index)))
		case i > 0:
			text.WriteString("." + s.name)
		default:
			text.WriteString(s.name)
		}
	}

	return text.String()
}

// managerOf states who manages a field.
func managerOf(u *unstructured.Unstructured, path []step) string {
	ours := false
	for _, entry := range u.GetManagedFields() {
		var set map[string]json.RawMessage
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &set) != nil || !manages(set, path) {
			continue
		}

		if entry.Manager != manager {
			return fmt.Sprintf("which %.100q manages", entry.Manager)
		}

		ours = true
	}

	if ours {
		return "which an admission webhook of the cluster changes"
	}

	return "which someone has removed"
}

// manages reports whether a set of fields, in the form of FieldsV1, has a path or a part of an
// object that is one value.
func manages(set map[string]json.RawMessage, path []step) bool {
	if len(path) == 0 {
		return true
	}

	s := path[0]
	for key, text := range set {
		form, rest, _ := strings.Cut(key, ":")
		var values fields
		switch {
		case form == "f" && s.element == nil && rest == s.name:
		case form == "k" && s.element != nil && json.Unmarshal([]byte(rest), &values) == nil && difference(s.element, values, extended, path) == nil:
		default:
			continue
		}

		var next map[string]json.RawMessage
		if json.Unmarshal(text, &next) != nil {
			return false
		}

		return len(next) == 0 || manages(next, path[1:])
	}

	return false
}

// drift states what someone has changed of a revision that was started, or "".
func (r revision) drift() string {
	switch {
	case r.app == nil:
		return "the Deployment is missing"
	case r.app.Drift != "":
		return r.app.Drift
	case r.secret == nil:
		return "the Secret is missing"
	case r.service == nil:
		return "the Service is missing"
	case r.service.Drift != "":
		return r.service.Drift
	case r.policy == nil:
		return "the NetworkPolicy is missing"
	}

	return r.policy.Drift
}

// repairs has the repairs of revisions: what changes them each time is a failure, with a pause that
// doubles, because each repair may replace their pods.
type repairs struct {
	mu  sync.Mutex // guards all
	all map[repairKey]repair
}

type repairKey struct{ revision, drift string }

// repair is the last one of a drift.
type repair struct {
	at    time.Time
	count int
}

// Pauses between repairs of the same drift.
const (
	repairPause   = time.Second // after the first one; it doubles
	repairLongest = time.Minute
	repairMemory  = 10 * time.Minute
)

// check returns an error if a drift was repaired a moment ago.
func (r *repairs) check(revision, drift string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, found := r.all[repairKey{revision, drift}]
	if !found || time.Since(last.at) >= min(repairPause<<min(last.count, 10), repairLongest) {
		return nil
	}

	return fmt.Errorf("someone changes its objects in the cluster again after each repair: %s", drift)
}

// started reports whether a revision was started a while ago, and not removed.
func (r *repairs) started(revision string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.all {
		if key.revision == revision {
			return true
		}
	}

	return false
}

// add records a repair, or the first start of a revision.
func (r *repairs) add(revision, drift string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.all, func(_ repairKey, last repair) bool { return time.Since(last.at) >= repairMemory })
	if r.all == nil {
		r.all = map[repairKey]repair{}
	}

	key := repairKey{revision, drift}
	r.all[key] = repair{at: time.Now(), count: r.all[key].count + 1}
}

// forget removes the repairs of a revision that is removed.
func (r *repairs) forget(revision string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.all, func(key repairKey, _ repair) bool { return key.revision == revision })
}
