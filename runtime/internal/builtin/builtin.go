package builtin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Config of the tools.
type Config struct {
	// Dir is the working directory, which no file tool leaves. Defaults to none: then there are no
	// tools [InDir]. The caller closes it.
	Dir *filesafe.Dir

	// Skills are the skills that the tool Skill returns. Read may also open the files below the
	// directories of the user's skills, as they were when the tools were made. The skills of a
	// project are in Dir.
	Skills []skill.Skill

	// Hides reports whether Read is denied a file. Grep and Glob omit such a file, and Edit rejects
	// it. The path is relative to Dir, with "/". It is called concurrently. Defaults to a function
	// that returns false.
	Hides func(path string) bool

	// DeniesRead reports whether a rule denies reading a file. Skill does not return such a file.
	// The path is absolute. It is called concurrently. Defaults to a function that returns false.
	DeniesRead func(path string) bool

	// MaxOutput bounds the bytes of a tool's output. Defaults to 100,000.
	MaxOutput int

	// Env is the environment of child processes as "NAME=value". Defaults to an empty one.
	Env []string

	// Sandbox confines the commands of Bash. Defaults to none. The caller closes it.
	Sandbox tool.Confiner

	// BashPath is the bash that runs commands. Defaults to "/bin/bash".
	BashPath string

	// Client sends the requests of WebFetch. Defaults to a client that rejects private addresses
	// and uses no proxy.
	Client *http.Client
}

// InDir are the names of the tools that need a working directory.
var InDir = []string{"Read", "Write", "Edit", "Glob", "Grep", "Bash"}

// Tools returns all built-in tools except Task, which the engine implements. Those of InDir are
// included if there is a working directory, and Skill if there are skills.
func Tools(c Config) []tool.Tool {
	c.MaxOutput = cmp.Or(c.MaxOutput, 100_000)
	c.BashPath = cmp.Or(c.BashPath, "/bin/bash")
	if c.Hides == nil {
		c.Hides = func(string) bool { return false }
	}

	if c.DeniesRead == nil {
		c.DeniesRead = func(string) bool { return false }
	}

	var tools []tool.Tool
	if c.Dir != nil {
		tools = append(tools, newRead(&c), newWrite(&c), newEdit(&c), newGlob(&c), newGrep(&c), newBash(&c))
	}

	tools = append(tools, newWebFetch(&c), newTodoWrite(&c))
	if len(c.Skills) > 0 {
		tools = append(tools, newSkill(&c))
	}

	return tools
}

// inputSchema returns the schema of an input. Both parameters are JSON: the names of required
// properties between commas, and the properties.
func inputSchema(required, properties string) json.RawMessage {
	return fmt.Appendf(nil, `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {%s
  },
  "required": [%s],
  "additionalProperties": false
}`, properties, required)
}

// pathError returns the error of a file operation for the model. It reveals nothing about files
// outside dir.
func pathError(dir *filesafe.Dir, path string, err error) error {
	name := display(path)
	switch {
	case errors.Is(err, filesafe.ErrOutside):
		return fmt.Errorf("%s is outside the working directory %s: use a path in it", name, display(dir.Path()))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: use Glob to find the path", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: the file permissions do not allow this", name)
	case errors.Is(err, fs.ErrInvalid):
		return errors.New("the path contains a null byte")
	case errors.Is(err, filesafe.ErrNotDirectory), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s or a part of it is not a directory", name)
	case errors.Is(err, filesafe.ErrNotFile):
		if info, err := dir.Stat(path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory: use Glob to list it", name)
		}

		return fmt.Errorf("%s is not a regular file", name)
	}

	if inner, ok := errors.AsType[*fs.PathError](err); ok { // without its path, which may differ
		err = inner.Err
	}

	return fmt.Errorf("%s: %w", name, err)
}

// skillDir is a directory outside the working directory that Read may access.
type skillDir struct {
	path string // of the skill
	real string // without links
}

// skillDirs returns the directories of the user's skills that are outside the working directory.
// The skills of a project are read as files of the working directory: their source is not trusted,
// and links in them must not lead outside.
func skillDirs(dir *filesafe.Dir, skills []skill.Skill) []skillDir {
	var dirs []skillDir
	for _, s := range skills {
		if s.Source != skill.User {
			continue
		}

		path := filepath.Clean(s.Dir())
		resolved, err := filepath.EvalSymlinks(path)
		if err != nil || below(dir.Path(), path) || below(dir.Path(), resolved) {
			continue
		}

		dirs = append(dirs, skillDir{path, resolved})
	}

	return dirs
}

// below reports whether an absolute path is dir or in it.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// openForRead opens a file of the working directory or of a skill. Its error is for the model.
func openForRead(dir *filesafe.Dir, skills []skillDir, path string) (*os.File, error) {
	f, err := dir.Open(path)
	if err == nil {
		return f, nil
	}

	if !errors.Is(err, filesafe.ErrOutside) || !filepath.IsAbs(path) {
		return nil, pathError(dir, path, err)
	}

	for _, s := range skills {
		if !below(s.path, path) && !below(s.real, path) {
			continue
		}

		if f, err := s.open(path); err == nil || !errors.Is(err, filesafe.ErrOutside) {
			return f, err
		}
	}

	return nil, pathError(dir, path, err)
}

// open opens a file below the directory, which must not have been replaced since the start.
func (s skillDir) open(path string) (*os.File, error) {
	dir, err := filesafe.Open(s.real)
	if err != nil {
		return nil, fmt.Errorf("%s does not exist: the directory of the skill was removed", display(path))
	}

	defer func() { _ = dir.Close() }() // the file stays open
	if dir.Path() != s.real {
		return nil, filesafe.ErrOutside
	}

	f, err := dir.Open(path)
	if err != nil && !errors.Is(err, filesafe.ErrOutside) {
		err = pathError(dir, path, err)
	}

	return f, err
}

// maxLine is the number of bytes of a line that the output contains.
const maxLine = 2000

// result returns a text as the result of a tool.
func (c *Config) result(text string) tool.Result {
	output, truncated := excerpt.Ends(text, c.MaxOutput)
	return tool.Result{Output: output, Truncated: truncated}
}

// appendLine appends a line without its end. more is the number of bytes of the line that are not
// in line.
func appendLine(out []byte, line []byte, more int64) []byte {
	if len(line) > maxLine {
		head := excerpt.Head(line, maxLine)
		more += int64(len(line) - len(head))
		line = head
	}

	if utf8.Valid(line) {
		out = append(out, line...)
	} else {
		out = append(out, strings.ToValidUTF8(string(line), "\uFFFD")...)
	}

	if more > 0 {
		out = fmt.Appendf(out, " [%d bytes of this line cut]", more)
	}

	return out
}

// display returns a path for the output. A path with control characters is quoted.
func display(path string) string {
	path = strings.ToValidUTF8(path, "\uFFFD")
	if strings.ContainsFunc(path, unicode.IsControl) {
		return strconv.Quote(path)
	}

	return path
}

// plural returns a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}

	return strconv.Itoa(n) + " " + noun + "s"
}
