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
	maxDetailString = 4096      // characters of one string in a detail; what is longer is cut
	maxDetail       = 256 << 10 // bytes of a detail's JSON; what is longer is refused
)

// checkDetail tells why a type leaves open what it can hold. Its error begins with the path to the fault.
func checkDetail(t reflect.Type) error {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return fmt.Errorf("%s is not a struct", t)
	}
	return checkClosed(t, t.String(), nil)
}

func checkClosed(t reflect.Type, path string, within []reflect.Type) error {
	if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[*time.Time]() {
		return nil // it writes its own text, which is known
	}
	if slices.Contains(within, t) {
		return fmt.Errorf("%s: %s contains itself", path, t)
	}
	if writesItself(t) {
		return fmt.Errorf("%s: %s writes its own JSON or text", path, t)
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
			return fmt.Errorf("%s: %s holds bytes, which say nothing to a reader", path, t)
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
		return fmt.Errorf("%s: a %s can hold anything", path, t.Kind())
	}
}

func checkField(f reflect.StructField, path string, within []reflect.Type) error {
	switch tag := f.Tag.Get("json"); {
	case f.Anonymous && f.Type.Kind() == reflect.Pointer:
		return fmt.Errorf("%s: is an embedded pointer", path)
	case tag == "-", !f.IsExported() && !f.Anonymous:
		return fmt.Errorf("%s: would not be recorded", path)
	case slices.Contains(strings.Split(tag, ",")[1:], "string"):
		return fmt.Errorf("%s: is a string in JSON and is none here", path)
	}
	return checkClosed(f.Type, path, within)
}

func writesItself(t reflect.Type) bool {
	return slices.ContainsFunc([]reflect.Type{t, reflect.PointerTo(t)}, func(t reflect.Type) bool {
		return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	})
}

// cutStrings cuts the strings in v, which is addressable, and leaves alone whatever v shares with others.
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
		if v.Type() == reflect.TypeFor[time.Time]() {
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
