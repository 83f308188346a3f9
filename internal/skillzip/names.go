package skillzip

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/pattern"
	"golang.org/x/text/unicode/norm"
)

// Limits of the paths of an archive.
const (
	MaxDepth     = 32        // segments of a path
	MaxDirs      = 2000      // directories, also those that have no entry
	MaxPathBytes = 256 << 10 // of all paths together

	maxPath    = 512 // bytes
	maxSegment = 255
)

// Names are the paths of an archive. The zero value has none. The work of all calls of Add is
// linear in the bytes of the paths.
type Names struct {
	root  node
	bytes int
	dirs  int
}

// node is a file or a directory.
type node struct {
	name  string // the segment as the archive has it
	dir   bool
	below map[string]*node // by the form in which file systems may consider names equal
}

// Add adds a file, or a directory, with the directories above it. It returns the path of the entry
// without ./ and a slash at its end, which is "" for the root. The error is an [*Error].
func (n *Names) Add(entry string, dir bool) (string, error) {
	if n.bytes += len(entry); n.bytes > MaxPathBytes {
		return "", &Error{Reason: fmt.Sprintf("the paths of the archive have more than %d bytes", MaxPathBytes)}
	}

	name, err := checkPath(entry)
	if err != nil || name == "" {
		return "", err
	}

	at := &n.root
	for begin, end := 0, 0; end < len(name); begin = end + 1 {
		end = len(name)
		if i := strings.IndexByte(name[begin:], '/'); i >= 0 {
			end = begin + i
		}

		segment, more := name[begin:end], end < len(name)
		next, ok := at.below[fold(segment)]
		switch {
		case !ok:
			next = &node{name: segment, dir: more || dir}
			if at.below == nil {
				at.below = map[string]*node{}
			}

			at.below[fold(segment)] = next
			if next.dir {
				n.dirs++
			}
		case next.name != segment:
			return "", &Error{entry, fmt.Sprintf("has the same name as %.200q on some systems", name[:begin]+next.name)}
		case !next.dir || !more && !dir:
			return "", &Error{name[:end], "exists twice"}
		}

		at = next
	}

	if n.dirs > MaxDirs {
		return "", &Error{Reason: fmt.Sprintf("the archive has more than %d directories", MaxDirs)}
	}

	return name, nil
}

// fold returns the form of a segment in which file systems may consider names equal. Lower case of
// upper case also makes letters equal that have several lower forms.
func fold(segment string) string {
	return norm.NFC.String(strings.ToLower(strings.ToUpper(norm.NFC.String(segment))))
}

// checkPath returns the path of an entry without ./ and a slash at its end. It is "" for the root.
func checkPath(entry string) (string, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(entry, "./"), "/")
	reason := ""
	switch {
	case len(entry) > maxPath:
		reason = fmt.Sprintf("has a path of more than %d bytes", maxPath)
	case !utf8.ValidString(entry):
		reason = "has a name that is not UTF-8"
	case strings.ContainsFunc(entry, isUnsafe):
		reason = "has control characters in its name"
	case strings.Contains(entry, `\`):
		reason = "has a backslash in its name"
	case strings.HasPrefix(entry, "/"), len(name) > 1 && name[1] == ':' && unicode.IsLetter(rune(name[0])):
		reason = "has an absolute path"
	case entry == "":
		reason = "must have a name"
	case name == "" || name == ".":
		return "", nil
	case strings.Count(name, "/") >= MaxDepth:
		reason = fmt.Sprintf("is in more than %d directories", MaxDepth-1)
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

var skillName = pattern.Compile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// SkillName returns the name of a skill in a hub: the declared one, or that of its folder if none
// is declared or the declared one cannot be a name. It reports whether the result can be one.
func SkillName(declared, folder string) (string, bool) {
	if declared == "" || !skillName().MatchString(declared) && skillName().MatchString(folder) {
		declared = folder
	}

	return declared, skillName().MatchString(declared)
}

// IsForeign reports whether a system added the entry, which is no part of the skill. macOS writes
// ._x next to x.
func IsForeign(entry string) bool {
	base := path.Base(entry)
	return strings.HasPrefix(entry, "__MACOSX/") || strings.HasPrefix(base, "._") || base == ".DS_Store"
}
