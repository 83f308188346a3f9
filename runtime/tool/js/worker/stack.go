package worker

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"modernc.org/quickjs"

	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

// places maps lines of a script to places in the tool's file, in the order of columns.
type places [][]place

// place is a column of the script and its line and column in the file, counted from 0.
type place struct{ column, fileLine, fileColumn int }

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// placesOf decodes the mappings. It skips malformed ones.
func placesOf(m frame.SourceMap) places {
	var all places
	var source, fileLine, fileColumn int // each field is the difference to the previous one
	for line := range strings.SplitSeq(m.Mappings, ";") {
		column := 0
		var row []place
		for segment := range strings.SplitSeq(line, ",") {
			fields, ok := digits(segment)
			if !ok || len(fields) < 4 {
				continue
			}

			column += fields[0]
			source += fields[1]
			fileLine += fields[2]
			fileColumn += fields[3]
			if source == m.File {
				row = append(row, place{column, fileLine, fileColumn})
			}
		}

		all = append(all, row)
	}

	return all
}

// digits decodes numbers of base 64 digits with five bits each. The sixth bit means that a digit
// follows, the lowest bit of a number is its sign.
func digits(segment string) ([]int, bool) {
	value, shift := 0, 0
	var fields []int
	for i := range len(segment) {
		digit := strings.IndexByte(base64Digits, segment[i])
		if digit < 0 || shift > 30 {
			return nil, false
		}

		value |= (digit & 31) << shift
		if shift += 5; digit&32 != 0 {
			continue
		}

		if value&1 != 0 {
			value = -value
		}

		fields = append(fields, value/2)
		value, shift = 0, 0
	}

	return fields, shift == 0
}

// at returns the place in the file for a place in the script. Both are counted from 1.
func (p places) at(line, column int) (int, int, bool) {
	if line < 1 || line > len(p) || len(p[line-1]) == 0 {
		return 0, 0, false
	}

	row := p[line-1]
	i, exact := slices.BinarySearchFunc(row, column-1, func(a place, c int) int { return a.column - c })
	if !exact && i > 0 {
		i--
	}

	return row[i].fileLine + 1, row[i].fileColumn + 1, true
}

// maxStack limits the lines of a stack that the model receives.
const maxStack = 3

var frameOfStack = pattern.Compile(`^\s*at (.*?) ?\(?<eval>:(\d+):(\d+)\)?$`)

// withStack adds the lines of a stack that are in the tool's file.
func withStack(text, stack string, lines places, file string) string {
	var b strings.Builder
	b.WriteString(text)
	n := 0
	for function, at := range framesOf(stack, lines) {
		fmt.Fprintf(&b, "\n    at %s (%s:%d:%d)", function, file, at.fileLine, at.fileColumn)
		if n++; n == maxStack {
			break
		}
	}

	return b.String()
}

// placed adds the innermost place of a stack that is in the tool's file.
func placed(text, stack string, lines places, file string) string {
	for _, at := range framesOf(stack, lines) {
		return fmt.Sprintf("%s:%d:%d: %s", file, at.fileLine, at.fileColumn, text)
	}

	return file + ": " + text
}

// framesOf returns the frames of a stack that are in the tool's file: the name of the function, and
// the place, counted from 1.
func framesOf(stack string, lines places) iter.Seq2[string, place] {
	return func(yield func(string, place) bool) {
		for frame := range strings.Lines(stack) {
			m := frameOfStack().FindStringSubmatch(strings.TrimRight(frame, "\n"))
			if m == nil {
				continue
			}

			line, _ := strconv.Atoi(m[2])
			column, _ := strconv.Atoi(m[3])
			fileLine, fileColumn, ok := lines.at(line, column)
			if ok && !yield(orAnonymous(m[1]), place{fileLine: fileLine, fileColumn: fileColumn}) {
				return
			}
		}
	}
}

func orAnonymous(name string) string {
	if name == "" || name == "<eval>" {
		return "<anonymous>"
	}

	return name
}

// describe formats an error of the engine with its place in the file.
func describe(err error, lines places, file string) string {
	var e *quickjs.Error
	if !errors.As(err, &e) {
		return err.Error()
	}

	text := cmp.Or(e.Message, e.Error())
	if e.Message != "" && e.Name != "" {
		text = e.Name + ": " + e.Message
	}

	if line, column, ok := lines.at(e.LineNumber, e.ColumnNumber); ok {
		return fmt.Sprintf("%s:%d:%d: %s", file, line, column, text)
	}

	return placed(text, e.Stack, lines, file)
}
