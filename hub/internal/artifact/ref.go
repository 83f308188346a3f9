package artifact

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Purpose is the purpose of a file. It is the first element of its key.
type Purpose string

// Purposes of files.
const (
	Tools  Purpose = "tools"  // public
	Skills Purpose = "skills" // served only by signed links
)

// Ref names a stored file.
type Ref struct {
	Kind Purpose
	Hash string // SHA-256 of the content: 64 lower-case hex digits
	Name string // of the file, such as "weather.ts"
	Size int64  // bytes
}

// Key returns the key of the file in its driver, such as "tools/9f86.../weather.ts".
func (r Ref) Key() string { return string(r.Kind) + "/" + r.Hash + "/" + r.Name }

func (r Ref) check() error {
	if r.Kind != Tools && r.Kind != Skills {
		return fmt.Errorf("unknown kind %q", r.Kind)
	}

	if !isHash(r.Hash) {
		return fmt.Errorf("hash %q is not a SHA-256 in lower-case hex", r.Hash)
	}

	return CheckName(r.Name)
}

// isHash reports whether s has the form of a hash in a key.
func isHash(s string) bool {
	for i := range len(s) {
		if c := s[i]; ('0' > c || c > '9') && ('a' > c || c > 'f') {
			return false
		}
	}

	return len(s) == 64
}

// maxName is the length of the longest name in bytes. File systems permit 255.
const maxName = 200

// CheckName returns an error if a file with that name cannot be stored on every system.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name has %d bytes, more than %d", len(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isUnsafe):
		return fmt.Errorf("the name has control characters or is not UTF-8")
	case strings.ContainsAny(name, `/\<>:"|?*`):
		return fmt.Errorf(`the name has one of the characters / \ < > : " | ? *`)
	case name[0] == '.' || name[0] == ' ' || strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return fmt.Errorf("the name begins or ends with a dot or a space")
	}

	return nil
}

// isUnsafe reports whether a character changes how a name is displayed.
func isUnsafe(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// ParseKey returns the file that a key names, without its size, and whether the key is one of
// [Ref.Key].
func ParseKey(key string) (Ref, bool) {
	kind, rest, _ := strings.Cut(key, "/")
	hash, name, _ := strings.Cut(rest, "/")
	r := Ref{Kind: Purpose(kind), Hash: hash, Name: name}
	return r, r.check() == nil
}
