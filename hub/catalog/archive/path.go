package archive

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	maxPath    = 512 // bytes
	maxSegment = 255
)

// Error is the reason why an upload is rejected. Entry is "" if it concerns the upload as a whole.
type Error struct {
	Entry  string
	Reason string
}

func (e *Error) Error() string {
	if e.Entry == "" {
		return e.Reason
	}
	return fmt.Sprintf("entry %.200q %s", e.Entry, e.Reason)
}

// checkPath returns the path of an entry without ./ and a slash at its end. It is "" for the root.
func checkPath(entry string) (string, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(entry, "./"), "/")
	reason := ""
	switch {
	case !utf8.ValidString(entry):
		reason = "has a name that is not UTF-8"
	case strings.ContainsFunc(entry, isUnsafe):
		reason = "has control characters in its name"
	case strings.Contains(entry, `\`):
		reason = "has a backslash in its name"
	case strings.HasPrefix(entry, "/"), len(name) > 1 && name[1] == ':' && unicode.IsLetter(rune(name[0])):
		reason = "has an absolute path"
	case len(entry) > maxPath:
		reason = fmt.Sprintf("has a path of more than %d bytes", maxPath)
	case name == "" || name == ".":
		return "", nil
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case reason != "":
		case segment == "..":
			reason = "is outside of the archive"
		case segment == "" || segment == ".":
			reason = "has an empty segment in its path"
		case len(segment) > maxSegment:
			reason = fmt.Sprintf("has a name of more than %d bytes", maxSegment)
		}
	}
	if reason != "" {
		return "", &Error{entry, reason}
	}
	return name, nil
}

func isUnsafe(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// isForeign reports whether a system added the entry.
func isForeign(name string) bool {
	return name == "__MACOSX" || strings.HasPrefix(name, "__MACOSX/") || path.Base(name) == ".DS_Store"
}

// names are the paths of an archive, by the form in which file systems may consider them equal.
type names map[string]spelling

type spelling struct {
	name string
	dir  bool
}

// add adds a file or a directory with the directories above it.
func (n names) add(name string, dir bool) error {
	for at, r := range name {
		if r == '/' {
			if err := n.put(name[:at], true); err != nil {
				return err
			}
		}
	}
	return n.put(name, dir)
}

func (n names) put(name string, dir bool) error {
	// Lower case of upper case also makes letters equal that have several lower forms.
	key := norm.NFC.String(strings.ToLower(strings.ToUpper(norm.NFC.String(name))))
	old, ok := n[key]
	switch {
	case !ok:
		n[key] = spelling{name, dir}
	case old.name != name:
		return &Error{name, fmt.Sprintf("has the same name as %.200q on some systems", old.name)}
	case !dir || !old.dir:
		return &Error{name, "exists twice"}
	}
	return nil
}
