package auditlog

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

const (
	maxDetailString = 4096      // characters of one string in a detail; longer ones are truncated
	maxDetail       = 256 << 10 // bytes of a detail's JSON; longer ones are rejected
)

// checkDetail returns an error if a type can have arbitrary contents. The error begins with the
// path to the field.
func checkDetail(t reflect.Type) error {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return fmt.Errorf("%s is not a struct", t)
	}
	return checkClosed(t, t.String(), nil)
}

func checkClosed(t reflect.Type, path string, within []reflect.Type) error {
	switch t {
	case reflect.TypeFor[time.Time](), reflect.TypeFor[*time.Time](), reflect.TypeFor[Head]():
		return nil // their own JSON is known
	}
	if slices.Contains(within, t) {
		return fmt.Errorf("%s: %s contains itself", path, t)
	}
	if writesItself(t) {
		return fmt.Errorf("%s: %s has its own JSON or text encoding", path, t)
	}
	within = append(slices.Clip(within), t)
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Pointer:
		return checkClosed(t.Elem(), path, within)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return fmt.Errorf("%s: %s contains bytes, which no reader understands", path, t)
		}
		return checkClosed(t.Elem(), path+"[]", within)
	case reflect.Struct:
		for f := range t.Fields() {
			if err := checkField(f, path+"."+f.Name, within); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%s: a %s can have arbitrary contents", path, t.Kind())
	}
}

func checkField(f reflect.StructField, path string, within []reflect.Type) error {
	switch tag := f.Tag.Get("json"); {
	case f.Anonymous && f.Type.Kind() == reflect.Pointer:
		return fmt.Errorf("%s: is an embedded pointer", path)
	case tag == "-", !f.IsExported() && !f.Anonymous:
		return fmt.Errorf("%s: would not be recorded", path)
	case slices.Contains(strings.Split(tag, ",")[1:], "string"):
		return fmt.Errorf("%s: has the option string", path)
	}
	return checkClosed(f.Type, path, within)
}

func writesItself(t reflect.Type) bool {
	return slices.ContainsFunc([]reflect.Type{t, reflect.PointerTo(t)}, func(t reflect.Type) bool {
		return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	})
}

// cutStrings truncates the strings in v, which is addressable. It copies the memory that v shares
// with other values.
func cutStrings(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(cut(v.String(), maxDetailString))
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			cutStrings(own.Elem())
			v.Set(own)
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		v.Set(own)
		cutElements(v)
	case reflect.Array:
		cutElements(v)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[Head]() {
			return
		}
		for _, field := range v.Fields() {
			cutStrings(field)
		}
	default: // numbers and booleans
	}
}

func cutElements(v reflect.Value) {
	for i := range v.Len() {
		cutStrings(v.Index(i))
	}
}
