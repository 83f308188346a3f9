package admin

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// Object is an entity of a gateway, or a part of one.
type Object = map[string]any

// Equal reports whether the JSON of an entity has all fields of want, and no others but set, which
// the gateway sets, those in defaults, and empty ones. The lists of texts of the entity itself are
// sets.
func Equal(entity json.RawMessage, want, defaults Object, set ...string) bool {
	text, err := json.Marshal(want) // numbers and lists get the types that those of the entity have
	if err != nil {
		return false
	}

	var a, b Object
	if jsonlimit.Unmarshal(entity, &a) != nil || jsonlimit.Unmarshal(text, &b) != nil {
		return false
	}

	for _, name := range set {
		delete(a, name)
	}

	sortTexts(a)
	sortTexts(b)
	return equal(a, b, defaults)
}

// equal is Equal for values, at any depth.
func equal(has, want, defaults any) bool {
	switch want := want.(type) {
	case Object:
		object, ok := has.(Object)
		usual, _ := defaults.(Object)
		for name := range want {
			_, found := object[name]
			ok = ok && found
		}

		for name, value := range object {
			wanted, found := want[name]
			switch {
			case found:
				ok = ok && equal(value, wanted, usual[name])
			case value != nil && usual[name] != nil:
				ok = ok && reflect.DeepEqual(value, usual[name])
			default:
				ok = ok && isEmpty(value)
			}
		}

		return ok
	case []any:
		list, ok := has.([]any)
		return ok && slices.EqualFunc(list, want, func(a, b any) bool { return equal(a, b, nil) })
	}

	return reflect.DeepEqual(has, want)
}

// isEmpty reports whether a value is null, false, 0, "", or has only such values.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case Object:
		return !slices.ContainsFunc(slices.Collect(maps.Values(value)), func(v any) bool { return !isEmpty(v) })
	case []any:
		return !slices.ContainsFunc(value, func(v any) bool { return !isEmpty(v) })
	}

	return reflect.ValueOf(value).IsZero()
}

func sortTexts(e Object) {
	for _, value := range e {
		if list, ok := value.([]any); ok {
			slices.SortFunc(list, func(a, b any) int {
				x, _ := a.(string)
				y, _ := b.(string)
				return cmp.Compare(x, y)
			})
		}
	}
}
