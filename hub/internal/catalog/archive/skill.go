// Package archive reads uploaded skills: a .zip, a .tar.gz, or one SKILL.md. It checks every entry
// and writes a zip that depends only on the content of the files, their names and which of them are
// executable.
//
// The archive is untrusted. It has at most 20 MiB, 2,000 entries, 2,000 directories, 32 segments in
// a path and 256 KiB of paths, and is read once. Nothing is written to a path from it: contents are
// copied to one temporary file of at most 100 MiB and about 200 times the size of the archive, and
// memory is bounded. Entries of other systems (__MACOSX, .DS_Store, ._x) are omitted, and so is
// what is outside of the folder with SKILL.md. A link in that folder is an error.
package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/internal/skillzip"
)

const (
	maxRatio = 200     // of the unpacked to the packed size, beyond freeSize
	freeSize = 1 << 20 // bytes
)

const document = "SKILL.md"

// Error is the reason why an upload is rejected.
type Error = skillzip.Error

// Skill is what the front matter of SKILL.md says, and the paths of all files.
type Skill struct {
	Name        string
	Description string // can be empty, and can have several lines
	Type        string // can be empty
	Paths       []string
}

// Normalize checks an upload of size bytes and writes it as a zip with SKILL.md at its root. The
// name is that in the front matter if it can be the name of a skill, otherwise that of the folder,
// otherwise that of the uploaded file. tempDir is the directory of the temporary file. An upload
// that is rejected has an [*Error], and other errors are those of the temporary file and of out.
func Normalize(in io.ReaderAt, size int64, fileName, tempDir string, out io.Writer) (_ Skill, err error) {
	if size > skillzip.MaxPacked {
		return Skill{}, &Error{Reason: fmt.Sprintf("the file is larger than %d MiB", skillzip.MaxPacked>>20)}
	}

	s, err := newSpool(tempDir, size)
	if err != nil {
		return Skill{}, err
	}

	defer func() { err = errors.Join(err, s.close()) }()
	content := io.NewSectionReader(in, 0, size)
	head := make([]byte, 4)
	n, err := content.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Skill{}, fmt.Errorf("read upload: %w", err)
	}

	folder := strings.TrimSuffix(strings.TrimSuffix(path.Base(fileName), path.Ext(fileName)), ".tar")
	switch head := string(head[:n]); {
	case strings.HasPrefix(head, "PK"):
		err = s.reader.Zip(content, size)
	case strings.HasPrefix(head, "\x1f\x8b"):
		err = s.reader.TarGz(content)
	default:
		folder = ""
		err = s.readDocument(content)
	}

	if err != nil {
		return Skill{}, err
	}

	if root, err := s.strip(); err != nil {
		return Skill{}, err
	} else if root != "/" {
		folder = root
	}

	result, err := s.parse(folder)
	if err != nil {
		return Skill{}, err
	}

	for _, f := range s.files {
		result.Paths = append(result.Paths, f.name)
	}

	return result, s.write(out)
}

// readDocument reads an upload that is only a SKILL.md.
func (s *spool) readDocument(in io.Reader) error {
	if err := s.reader.File(document, in); err != nil {
		return err
	}

	buffer := make([]byte, min(s.size, skill.MaxBytes))
	if _, err := io.ReadFull(s.open(s.files[0]), buffer); err != nil {
		return fmt.Errorf("read spool: %w", err)
	}

	if len(buffer) == 0 || !utf8.Valid(buffer) && s.size <= skill.MaxBytes || bytes.ContainsFunc(buffer, isBinary) {
		return &Error{Reason: "the file is not a .zip, a .tar.gz or a SKILL.md in UTF-8"}
	}

	return nil
}

func isBinary(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }

// strip keeps the folder that SKILL.md is in, at any depth, removes the folder from all names, and
// returns its name. A SKILL.md below that folder belongs to the skill. What is outside of it, such
// as the other files of a repository, is left out.
func (s *spool) strip() (string, error) {
	var documents []string
	for _, f := range s.files {
		if isDocument(path.Base(f.name)) && !f.link {
			documents = append(documents, f.name)
		}
	}

	if len(documents) == 0 {
		return "", &Error{Reason: "the archive has no SKILL.md"}
	}

	found := slices.MinFunc(documents, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	prefix := found[:len(found)-len(document)]
	var others []string
	for _, name := range documents {
		if !strings.HasPrefix(name, prefix) {
			others = append(others, path.Dir(name))
		}
	}

	if len(others) > 0 {
		names := strings.Join(append([]string{path.Dir(found)}, others[:min(len(others), maxNamed)]...), ", ")
		return "", &Error{Reason: fmt.Sprintf("the archive has several skills, such as %.300s: upload the folder of one", names)}
	}

	kept := s.files[:0]
	for _, f := range s.files {
		name, inside := strings.CutPrefix(f.name, prefix)
		switch {
		case !inside:
			continue
		case f.link:
			return "", skillzip.Linked(f.name)
		case f.name == found:
			name = document
		}

		f.name = name
		kept = append(kept, f)
	}

	s.files = kept
	return path.Base("/" + strings.TrimSuffix(prefix, "/")), nil
}

// maxNamed bounds the names in the error of an archive with several skills.
const maxNamed = 4

// isDocument reports whether a name is SKILL.md in any case of its ASCII letters, as the runtime
// finds it. Letters outside ASCII that fold to those are longer.
func isDocument(name string) bool {
	return len(name) == len(document) && strings.EqualFold(name, document)
}

// parse reads the front matter.
func (s *spool) parse(folder string) (Skill, error) {
	for _, f := range s.files {
		if f.name != document {
			continue
		}

		if f.size > skill.MaxBytes {
			return Skill{}, &Error{Entry: f.name, Reason: fmt.Sprintf("is larger than %d bytes", skill.MaxBytes)}
		}

		data := make([]byte, f.size)
		if _, err := io.ReadFull(s.open(f), data); err != nil {
			return Skill{}, fmt.Errorf("read spool: %w", err)
		}

		doc, problem := skill.Parse(data)
		var valid bool
		if doc.Name, valid = skillzip.SkillName(doc.Name, folder); !valid {
			reason := fmt.Sprintf("has the name %.80q in its front matter or folder: it must consist of 1 to 64 letters, digits, _ and -", doc.Name)
			if problem != nil {
				reason += "; " + problem.Error()
			}

			return Skill{}, &Error{Entry: f.name, Reason: reason}
		}

		return Skill{Name: doc.Name, Description: doc.Description, Type: doc.Type}, nil
	}

	return Skill{}, &Error{Reason: "the archive has no SKILL.md"}
}
