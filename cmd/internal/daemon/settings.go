package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caarlos0/env/v11"
	"github.com/spf13/pflag"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// Settings of a program are a struct whose fields have these tags:
//
//	env         variable of the environment, or the key in the file if there is no variable
//	key         key in the file, if it differs from the variable
//	flag        flag, which overrides the variable and the file
//	envDefault  default
//	help        description
//	options     permitted values, separated by spaces
//	range       least and largest permitted number or duration, or the least length of a text
//	secret      "file" permits NAME_FILE, the path of a file with the value; in the file, keyFile
//	was         former variables, separated by spaces: one that is set is a fault

// setting is a field with its names.
type setting struct {
	reflect.StructField
	key      string
	variable string // "" without one
}

// settingsOf returns the settings of a pointer to a struct.
func settingsOf(of any) []setting {
	var all []setting
	for _, f := range reflect.VisibleFields(reflect.TypeOf(of).Elem()) {
		name := f.Tag.Get("env")
		if name == "" {
			continue
		}

		s := setting{StructField: f, key: cmp.Or(f.Tag.Get("key"), name), variable: name}
		if strings.ToUpper(name) != name {
			s.variable = ""
		}

		if s.Type == reflect.TypeFor[File]() {
			s.key = ""
		}

		all = append(all, s)
	}

	return all
}

// Origins know where the values of settings come from, and what is wrong with them.
type Origins struct {
	// Secrets are the paths of the files that contain secrets, which no command of an agent may read.
	Secrets []string

	getenv func(string) string
	flags  *pflag.FlagSet
	file   map[string]leaf // by their keys
	fields map[any]*origin // by the pointer to the field
	faults agent.Faults
}

// origin is the flag, the variable or the place in the file of one value.
type origin struct {
	at     agent.Fault // without a message
	faulty bool
}

// Read sets the fields of settings, a pointer to a struct. A flag overrides a variable, and a
// variable the file that a field of the type [File] names. An empty variable has the effect of an
// unset one. flags may be nil.
func Read(settings any, getenv func(string) string, flags *pflag.FlagSet) *Origins {
	o := &Origins{fields: map[any]*origin{}, getenv: getenv, flags: flags}
	all := settingsOf(settings)
	for _, s := range all {
		if s.Type == reflect.TypeFor[File]() {
			if path, _ := o.find(s); path != "" {
				o.readFile(path, all)
			}
		}
	}

	texts := map[string]string{}
	pointers := map[string]any{} // by the name of the field
	for _, s := range all {
		pointers[s.Name] = reflect.ValueOf(settings).Elem().FieldByIndex(s.Index).Addr().Interface()
		text, at := o.find(s)
		texts[s.Tag.Get("env")] = text
		o.fields[pointers[s.Name]] = &origin{at: at}
		for _, former := range strings.Fields(s.Tag.Get("was")) {
			if getenv(former) != "" {
				o.add(agent.Fault{Key: former}, "%s", s.renamed())
			}
		}
	}

	err := env.ParseWithOptions(settings, env.Options{Environment: texts, FuncMap: parsers})
	invalid, _ := errors.AsType[env.AggregateError](err)
	for _, err := range invalid.Errors {
		fault, ok := errors.AsType[env.ParseError](err)
		if !ok {
			panic(err) // a field of a type without a parser
		}

		o.Fault(pointers[fault.Name], "%v", fault.Err)
	}

	for _, s := range all {
		if text := texts[s.Tag.Get("env")]; text != "" {
			o.check(s, pointers[s.Name], text)
		}
	}

	return o
}

// secret reports whether the value may be in a file of its own.
func (s setting) secret() bool { return s.Tag.Get("secret") == "file" }

// renamed describes the setting that replaces a former variable.
func (s setting) renamed() string {
	name := s.variable
	if name == "" {
		name = s.key + " in the file of settings"
	}

	return fmt.Sprintf("was renamed to %s: %s", name, s.Tag.Get("help"))
}

// find returns the text of a setting, or "" for its default, and where it comes from.
func (o *Origins) find(s setting) (string, agent.Fault) {
	if name := s.Tag.Get("flag"); name != "" && o.flags != nil && o.flags.Changed(name) {
		return o.flags.Lookup(name).Value.String(), agent.Fault{Key: "--" + name}
	}

	if s.variable != "" {
		at := agent.Fault{Key: s.variable}
		text, path := o.getenv(s.variable), ""
		if s.secret() {
			path = o.getenv(s.variable + "_FILE")
		}

		if text != "" || path != "" {
			return o.secret(at, "_FILE", text, path), at
		}
	}

	value, path := o.file[s.key], o.file[s.key+"File"]
	if at := cmp.Or(value.at, path.at); at.Line > 0 {
		if s.secret() {
			o.Secrets = append(o.Secrets, at.File)
		}

		return o.secret(at, "File", value.text, path.text), at
	}

	return "", agent.Fault{Key: s.names()}
}

// secret returns a value, or that of the file at a path.
func (o *Origins) secret(at agent.Fault, suffix, text, path string) string {
	if path == "" {
		return text
	}

	if text != "" {
		o.add(at, "%s and %s%s are both set", at.Key, at.Key, suffix)
		return ""
	}

	at.Key += suffix
	text, err := ReadSecret(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}

	if err != nil {
		o.add(at, "%v", err)
	}

	o.Secrets = append(o.Secrets, path)
	return text
}

// check checks a value that was parsed.
func (o *Origins) check(s setting, pointer any, text string) {
	if options := strings.Fields(s.Tag.Get("options")); len(options) > 0 && !slices.Contains(options, text) {
		o.Fault(pointer, "%.80q is not one of %s", text, strings.Join(options, ", "))
	}

	bounds := strings.Fields(s.Tag.Get("range"))
	if len(bounds) == 0 {
		return
	}

	value := reflect.ValueOf(pointer).Elem()
	if value.Kind() == reflect.String {
		if least, _ := strconv.Atoi(bounds[0]); utf8.RuneCountInString(text) < least {
			o.Fault(pointer, "it is shorter than %d characters: openssl rand -hex 32 generates one", least)
		}

		return
	}

	for i, bound := range bounds {
		limit, err := parsers[value.Type()](bound)
		if err != nil {
			panic(err) // of a tag
		}

		if n := reflect.ValueOf(limit).Int(); i == 0 && value.Int() < n || i == 1 && value.Int() > n {
			o.Fault(pointer, "%s is not from %s to %s", text, bounds[0], bounds[1])
		}
	}
}

func (o *Origins) add(at agent.Fault, format string, args ...any) {
	at.Message = fmt.Sprintf(format, args...)
	o.faults = append(o.faults, at)
}

// Fault adds what is wrong with the value of a field, unless its value has a fault already.
func (o *Origins) Fault(field any, format string, args ...any) {
	from := o.fields[field]
	if !from.faulty {
		o.add(from.at, format, args...)
	}

	from.faulty = true
}

// Invalid adds an error of the value of a field, if there is one.
func (o *Origins) Invalid(field any, err error) {
	if err != nil {
		o.Fault(field, "%v", err)
	}
}

// Err returns all faults, those of the file in its order, or nil.
func (o *Origins) Err() error {
	if len(o.faults) == 0 {
		return nil
	}

	slices.SortStableFunc(o.faults, func(a, b agent.Fault) int { return cmp.Compare(a.Line, b.Line) })
	return o.faults
}
