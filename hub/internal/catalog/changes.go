package catalog

import (
	"reflect"

	"github.com/seed93082962/agenthost/auditlog"
)

// recorded returns a detail with the fields that v has of the same names.
func recorded[D, T any](v T) (detail D) {
	to, from := reflect.ValueOf(&detail).Elem(), reflect.ValueOf(v)
	for field, value := range to.Fields() {
		if own := from.FieldByName(field.Name); own.IsValid() && own.Type() == field.Type {
			value.Set(own)
		}
	}

	return detail
}

// changed returns a detail with an [auditlog.Change] for each of its fields that two values have
// under the same name and that differs. Others are set by the caller.
func changed[D, T any](before, after T) (detail D) {
	to, a, b := reflect.ValueOf(&detail).Elem(), reflect.ValueOf(before), reflect.ValueOf(after)
	for field, value := range to.Fields() {
		from, now := a.FieldByName(field.Name), b.FieldByName(field.Name)
		if field.Type.Kind() != reflect.Pointer || !from.IsValid() || reflect.DeepEqual(from.Interface(), now.Interface()) {
			continue
		}

		if change := reflect.New(field.Type.Elem()); change.Elem().FieldByName("From").Type() == from.Type() {
			change.Elem().FieldByName("From").Set(from)
			change.Elem().FieldByName("To").Set(now)
			value.Set(change)
		}
	}

	return detail
}

// record returns the audit record of a change. before and after are equal for a removed component,
// and before is zero for a new one.
type record[T any] func(e auditlog.Event, before, after T) auditlog.Record

// recordOf returns the record of a new or a removed component, with the fields of the detail that a
// component has.
func recordOf[T, D any](action auditlog.Action[D]) record[T] {
	return func(e auditlog.Event, _, v T) auditlog.Record { return action.Record(e, recorded[D](v)) }
}

// recordChanges returns the record of a changed component, with the fields of the detail that
// differ.
func recordChanges[T, D any](action auditlog.Action[D]) record[T] {
	return func(e auditlog.Event, before, after T) auditlog.Record {
		return action.Record(e, changed[D](before, after))
	}
}
