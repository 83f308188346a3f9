package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
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
	maxEdit     = 10 << 20 // bytes of a file that Edit changes, before and after
	around      = 3        // lines that are shown before and after a change
	toldMatches = 10       // lines that are named when a text is not unique
)

func newEdit(c *Config) tool.Tool {
	return typed(tool.Spec{
		Name: "Edit",
		Description: `Replaces a text in a file by another. old_string must stand in the file exactly as given, white space and indentation included, and exactly once: take in lines around it until it is unique, or set replace_all to replace every occurrence, as for renaming.
Give the text without the line numbers that Read puts before it. In a file with \r\n line ends give \r\n. To make a new file use Write.`,
		InputSchema: json.RawMessage(editSchema),
	}, func(ctx context.Context, in editInput) (tool.Result, error) {
		switch in.OldString {
		case "":
			return tool.Result{}, emptyOld(c.Dir, in.FilePath)
		case in.NewString:
			return tool.Result{}, errors.New("old_string and new_string are the same: there is nothing to change")
		}
		defer lock(c.Dir, in.FilePath)()
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		return edit(c, in)
	})
}

func emptyOld(dir *filesafe.Dir, path string) error {
	if _, err := dir.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist: make it with Write", shown(path))
	} else if err != nil {
		return explain(dir, path, err)
	}
	return errors.New("old_string is empty: give the text to replace, or write the whole file with Write")
}

func edit(c *Config, in editInput) (tool.Result, error) {
	name := shown(in.FilePath)
	data, err := readWhole(c.Dir, in.FilePath)
	if err != nil {
		return tool.Result{}, err
	}
	hidden := c.hidden(in.FilePath) // then nothing of the file is told
	before, after := []byte(in.OldString), []byte(in.NewString)
	n := bytes.Count(data, before)
	switch {
	case n == 0 && hidden:
		return tool.Result{}, fmt.Errorf("old_string does not stand in %s", name)
	case n == 0:
		return tool.Result{}, fmt.Errorf("old_string does not stand in %s%s", name, hint(data, before))
	case n > 1 && !in.ReplaceAll:
		return tool.Result{}, fmt.Errorf("old_string stands in %s %d times, at %s: "+
			"take in more lines around the one you mean, or set replace_all", name, n, lineList(data, before))
	case len(data)+n*(len(after)-len(before)) > maxEdit:
		return tool.Result{}, fmt.Errorf("%s would become larger than 10 MiB", name)
	}
	at := bytes.Index(data, before)
	data = bytes.ReplaceAll(data, before, after)
	if err := c.Dir.WriteFile(in.FilePath, data, newFile); err != nil {
		return tool.Result{}, explain(c.Dir, in.FilePath, err)
	}
	if hidden {
		return c.result(fmt.Sprintf("Replaced %s in %s.\n", plural(n, "occurrence"), name)), nil
	}
	first := ""
	if n > 1 {
		first = ", the first of them"
	}
	out := fmt.Appendf(nil, "Replaced %s in %s%s:\n", plural(n, "occurrence"), name, first)
	return c.result(string(appendChange(out, data, at, at+len(after)))), nil
}

func readWhole(dir *filesafe.Dir, path string) ([]byte, error) {
	f, err := dir.Open(path)
	if err != nil {
		return nil, explain(dir, path, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, explain(dir, path, err)
	}
	size := info.Size()
	var data []byte
	if size <= maxEdit {
		data, err = io.ReadAll(io.LimitReader(f, maxEdit+1))
		size = int64(len(data))
	}
	switch {
	case err != nil:
		return nil, explain(dir, path, err)
	case size > maxEdit:
		return nil, fmt.Errorf("%s is larger than the 10 MiB that Edit can change", shown(path))
	}
	return data, nil
}

// locks has a mutex for some of the files of the process each: an edit reads, changes and writes, and two at once would
// lose one. They are the process's own, because so are the files, whichever Config leads to them.
var (
	locks    [256]sync.Mutex
	lockSeed = maphash.MakeSeed()
)

// lock waits until nobody else changes the file. The caller calls unlock, and holds no other lock meanwhile.
func lock(dir *filesafe.Dir, path string) (unlock func()) {
	if rel, err := dir.Resolve(path); err == nil || errors.Is(err, fs.ErrNotExist) {
		path = rel
	}
	m := &locks[maphash.String(lockSeed, filepath.Join(dir.Path(), path))%uint64(len(locks))]
	m.Lock()
	return m.Unlock
}

// hint says what may be wrong with a text that does not stand in data.
func hint(data, text []byte) string {
	unix := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }
	if bytes.Contains(unix(data), unix(text)) {
		if bytes.Contains(data, []byte("\r\n")) {
			return `. It does with other line ends: lines of the file end in \r\n, so give \r\n`
		}
		return `. It does with other line ends: lines of the file end in \n, so give \n`
	}
	if line, ok := squeezedLine(data, text); ok {
		return fmt.Sprintf(". At line %d it does apart from white space: "+
			"read those lines again, and give tabs, blanks and line ends as they are", line)
	}
	if bare := unnumbered(text); bare != nil && bytes.Contains(unix(data), bare) {
		return ". It does without the line numbers, which are Read's and not the file's"
	}
	if bytes.Contains(text, []byte("\uFFFD")) {
		return ". The character U+FFFD stands for bytes that are not UTF-8: choose a text without it"
	}
	return ": read the file again, and copy the text as it stands there"
}

// squeezedLine finds the line where text stands in data apart from white space.
func squeezedLine(data, text []byte) (line int, ok bool) {
	squeeze := func(b []byte) []byte {
		kept := make([]byte, 0, len(b))
		for _, c := range b {
			if c != ' ' && (c < '\t' || c > '\r') {
				kept = append(kept, c)
			}
		}
		return kept
	}
	if text = squeeze(text); len(text) == 0 {
		return 0, false
	}
	at := bytes.Index(squeeze(data), text)
	if at < 0 {
		return 0, false
	}
	for line = 1; ; line++ { // at counts bytes that are no white space
		row, rest, _ := bytes.Cut(data, []byte("\n"))
		if size := len(squeeze(row)); at >= size {
			at, data = at-size, rest
			continue
		}
		return line, true
	}
}

// unnumbered takes Read's line numbers off, if every line has one.
func unnumbered(text []byte) []byte {
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

// lineList names the lines at which text begins in data, each of them once.
func lineList(data, text []byte) string {
	var lines []string
	told := 0
	for line := 1; ; {
		at := bytes.Index(data, text)
		if at < 0 {
			break
		}
		if line += bytes.Count(data[:at], []byte("\n")); line != told {
			if len(lines) == toldMatches {
				lines[toldMatches-1] += " and more"
				break
			}
			lines = append(lines, strconv.Itoa(line))
			told = line
		}
		line += bytes.Count(text, []byte("\n"))
		data = data[at+len(text):]
	}
	word := "line "
	if len(lines) > 1 {
		word = "lines "
	}
	return word + strings.Join(lines, ", ")
}

// appendChange appends the lines around data[from:to], each after its number.
func appendChange(out, data []byte, from, to int) []byte {
	start := from
	for range around + 1 {
		if start = bytes.LastIndexByte(data[:start], '\n'); start < 0 {
			break
		}
	}
	start++
	number := 1 + bytes.Count(data[:start], []byte("\n"))
	rows := bytes.Count(data[start:to], []byte("\n")) + 1 + around
	for ; rows > 0 && start < len(data); rows, number = rows-1, number+1 {
		row, rest, _ := bytes.Cut(data[start:], []byte("\n"))
		start = len(data) - len(rest)
		out = fmt.Appendf(out, "%6d\t", number)
		out = append(appendLine(out, bytes.TrimSuffix(row, []byte("\r")), 0), '\n')
	}
	return out
}

const editSchema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {
    "file_path": {"type": "string", "minLength": 1, "description": "The file, absolute or relative to the working directory"},
    "old_string": {"type": "string", "description": "The text to replace, exactly as it stands in the file"},
    "new_string": {"type": "string", "description": "The text to put in its place; it must differ from old_string"},
    "replace_all": {"type": "boolean", "description": "Replace every occurrence of old_string; default false"}
  },
  "required": ["file_path", "old_string", "new_string"],
  "additionalProperties": false
}`
