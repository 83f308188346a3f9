package builtin

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/runtime/tool"
)

type editInput struct {
	FilePath   string `json:"file_path"`
	OldString  string `json:"old_string"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
}

const (
	maxEdit        = 10 << 20 // bytes of a file, before and after the change
	editContext    = 3        // lines in the output before and after a change
	maxListedLines = 10       // line numbers in the error for a text that is not unique
)

func newEdit(c *Config) tool.Tool {
	return changer(c, tool.Spec{
		Name: "Edit",
		Description: `Replaces a text in a file. old_string must match the file exactly, including white space and indentation, and must occur exactly once: add neighbouring lines until it is unique, or set replace_all to replace every occurrence.
Do not include the line numbers of Read. Lines keep their ends, and new lines get those around them: \r\n is only necessary to change them. To create a file, use Write.`,
		InputSchema: inputSchema(`"file_path", "old_string", "new_string"`, `
    "file_path": {"type": "string", "minLength": 1, "description": "The file, absolute or relative to the working directory"},
    "old_string": {"type": "string", "description": "The text to replace, exactly as in the file"},
    "new_string": {"type": "string", "description": "The replacement, which must differ from old_string"},
    "replace_all": {"type": "boolean", "description": "Replace every occurrence of old_string; defaults to false"}`),
	}, func(in *editInput) string { return in.FilePath }, func(in editInput) (change, error) {
		if c.hidesPath(in.FilePath) { // any other result would depend on its content
			return change{}, fmt.Errorf("Edit cannot change %s, because a rule denies reading it", display(in.FilePath)) //nolint:staticcheck // the name of the tool
		}

		switch in.OldString {
		case "":
			return change{}, emptyOldString(c.Dir, in.FilePath)
		case in.NewString:
			return change{}, errors.New("old_string and new_string are the same")
		}

		return edit(c, in)
	})
}

// emptyOldString returns the error for a call without old_string.
func emptyOldString(dir *filesafe.Dir, path string) error {
	if _, err := dir.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist: use Write to create it", display(path))
	} else if err != nil {
		return pathError(dir, path, err)
	}

	return errors.New("old_string is empty: set it to the text to replace, or use Write to replace the whole file")
}

func edit(c *Config, in editInput) (change, error) {
	name := display(in.FilePath)
	data, err := readWhole(c.Dir, in.FilePath)
	if err != nil {
		return change{}, err
	}

	before, after := []byte(in.OldString), []byte(in.NewString)
	at, n := 0, 0
	for o := range occurrences(data, before) {
		if n++; n == 1 {
			at = o.from
		}
	}

	switch {
	case n == 0:
		return change{}, fmt.Errorf("old_string is not in %s%s", name, hint(data, before))
	case n > 1 && !in.ReplaceAll:
		return change{}, fmt.Errorf("old_string occurs %[2]d times in %[1]s, at %[3]s: "+
			"add neighbouring lines to select one, or set replace_all", name, n, lineList(data, before))
	case len(data)+n*(len(after)+bytes.Count(after, []byte("\n"))-len(before)) > maxEdit:
		return change{}, fmt.Errorf("%s would become larger than 10 MiB", name)
	}

	changed, first := replace(data, before, after)
	return change{before: data, after: changed, known: true, output: func() string {
		shown := ""
		if n > 1 {
			shown = ", here is the first"
		}

		out := fmt.Appendf(nil, "Replaced %s in %s%s:\n", plural(n, "occurrence"), name, shown)
		return string(appendChange(out, changed, at, at+first))
	}}, nil
}

func readWhole(dir *filesafe.Dir, path string) ([]byte, error) {
	f, err := dir.Open(path)
	if err != nil {
		return nil, pathError(dir, path, err)
	}

	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, pathError(dir, path, err)
	}

	size := info.Size()
	var data []byte
	if size <= maxEdit {
		data, err = io.ReadAll(io.LimitReader(f, maxEdit+1))
		size = int64(len(data))
	}

	switch {
	case err != nil:
		return nil, pathError(dir, path, err)
	case size > maxEdit:
		return nil, fmt.Errorf("%s is larger than the 10 MiB that Edit can change", display(path))
	}

	return data, nil
}

// locks serialize the changes of a file, so that no concurrent edit is lost. Each mutex guards many
// files. The locks are global because several Configs may refer to the same file.
var (
	locks    [256]sync.Mutex
	lockSeed = maphash.MakeSeed()
)

// lock locks a file for a change. The caller must hold no other lock, and must call the
// returned function to unlock it.
func lock(dir *filesafe.Dir, path string) func() {
	if rel, err := dir.Resolve(path); err == nil || errors.Is(err, fs.ErrNotExist) {
		path = rel
	}

	m := &locks[maphash.String(lockSeed, filepath.Join(dir.Path(), path))%uint64(len(locks))]
	m.Lock()
	return m.Unlock
}

// hint returns a probable reason why a text is not in data.
func hint(data, text []byte) string {
	unix := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }
	if bytes.Contains(unix(data), unix(text)) {
		return `, but it is with other line ends: use \n, which is found with each of them`
	}

	if line, ok := lineWithoutSpace(data, text); ok {
		return fmt.Sprintf(", but line %d differs only in white space: "+
			"read the lines again, and copy tabs, spaces and line ends exactly", line)
	}

	if bare := withoutLineNumbers(text); bare != nil && bytes.Contains(unix(data), bare) {
		return ", but it is without the line numbers: they are in the output of Read, not in the file"
	}

	if bytes.Contains(text, []byte("\uFFFD")) {
		return ": U+FFFD replaces bytes that are not UTF-8, choose a text without it"
	}

	return ": read the file again, and copy the text exactly"
}

// lineWithoutSpace returns the number of the line at which data contains text if white space is
// ignored.
func lineWithoutSpace(data, text []byte) (int, bool) {
	removeSpace := func(b []byte) []byte {
		rest := make([]byte, 0, len(b))
		for _, c := range b {
			if c != ' ' && (c < '\t' || c > '\r') {
				rest = append(rest, c)
			}
		}

		return rest
	}
	if text = removeSpace(text); len(text) == 0 {
		return 0, false
	}

	at := bytes.Index(removeSpace(data), text)
	if at < 0 {
		return 0, false
	}

	var line int
	for line = 1; ; line++ { // at does not count white space
		row, rest, _ := bytes.Cut(data, []byte("\n"))
		if size := len(removeSpace(row)); at >= size {
			at, data = at-size, rest
			continue
		}

		return line, true
	}
}

// withoutLineNumbers removes the line numbers of Read. It returns nil if a line has none.
func withoutLineNumbers(text []byte) []byte {
	var bare [][]byte
	for row := range bytes.SplitSeq(text, []byte("\n")) {
		number, rest, ok := bytes.Cut(row, []byte("\t"))
		if number = bytes.TrimLeft(number, " "); !ok || len(number) == 0 || strings.Trim(string(number), "0123456789") != "" {
			return nil
		}

		bare = append(bare, rest)
	}

	return bytes.Join(bare, []byte("\n"))
}

// lineList returns the numbers of the lines at which text begins in data.
func lineList(data, text []byte) string {
	var lines []string
	last, line, counted := 0, 1, 0
	for o := range occurrences(data, text) {
		line += bytes.Count(data[counted:o.from], []byte("\n"))
		counted = o.from
		if line != last {
			if len(lines) == maxListedLines {
				lines[maxListedLines-1] += " and more"
				break
			}

			lines = append(lines, strconv.Itoa(line))
			last = line
		}
	}

	word := "line "
	if len(lines) > 1 {
		word = "lines "
	}

	return word + strings.Join(lines, ", ")
}

// appendChange appends the lines of data[from:to] and their context, each after its number.
func appendChange(out, data []byte, from, to int) []byte {
	start := from
	for range editContext + 1 {
		if start = bytes.LastIndexByte(data[:start], '\n'); start < 0 {
			break
		}
	}

	start++
	number := 1 + bytes.Count(data[:start], []byte("\n"))
	rows := bytes.Count(data[start:to], []byte("\n")) + 1 + editContext
	for ; rows > 0 && start < len(data); rows, number = rows-1, number+1 {
		row, rest, _ := bytes.Cut(data[start:], []byte("\n"))
		start = len(data) - len(rest)
		out = fmt.Appendf(out, "%6d\t", number)
		out = append(appendLine(out, bytes.TrimSuffix(row, []byte("\r")), 0), '\n')
	}

	return out
}

type writeInput struct {
	FilePath string `json:"file_path"`
	Content  string `json:"content"`
}

const newFileMode = 0o644 // before umask

func newWrite(c *Config) tool.Tool {
	return changer(c, tool.Spec{
		Name: "Write",
		Description: `Writes a file. Creates the file and missing directories, or replaces the whole content of an existing file.
To change part of a file, use Edit. Read an existing file before you replace it.`,
		InputSchema: inputSchema(`"file_path", "content"`, `
    "file_path": {"type": "string", "minLength": 1, "description": "The file, absolute or relative to the working directory"},
    "content": {"type": "string", "description": "The whole content of the file"}`),
	}, func(in *writeInput) string { return in.FilePath }, func(in writeInput) (change, error) {
		verb := "Created"
		if c.hidesPath(in.FilePath) { // the result must not depend on whether it exists
			verb = "Wrote"
		} else if _, err := c.Dir.Stat(in.FilePath); err == nil {
			verb = "Updated"
		}

		lines := strings.Count(in.Content, "\n")
		if in.Content != "" && !strings.HasSuffix(in.Content, "\n") {
			lines++
		}

		size := plural(len(in.Content), "byte") + ", " + plural(lines, "line")
		return change{after: []byte(in.Content), output: func() string {
			return fmt.Sprintf("%s %s (%s).", verb, display(in.FilePath), size)
		}}, nil
	})
}

// write writes a file whose path has no link: package permission replaces the path of a call by the
// one that it has judged. A link that was created since is not followed.
func (c *Config) write(path string, data []byte) error {
	rel, err := c.Dir.Resolve(path)
	switch {
	case err != nil && (rel == "" || !errors.Is(err, fs.ErrNotExist)):
		return pathError(c.Dir, path, err)
	case rel == "." || os.IsPathSeparator(path[len(path)-1]):
		return pathError(c.Dir, path, filesafe.ErrNotFile)
	}

	absolute := path
	if !filepath.IsAbs(path) {
		absolute = filepath.Join(c.Dir.Path(), path)
	}

	if filepath.Clean(absolute) != filepath.Join(c.Dir.Path(), rel) {
		return fmt.Errorf("%s leads through a link to %s: use that path", display(path), display(rel))
	}

	if err := c.Dir.WriteResolved(rel, data, newFileMode); err != nil {
		return pathError(c.Dir, path, err)
	}

	return nil
}
