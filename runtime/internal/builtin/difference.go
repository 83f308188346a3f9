package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// previewed is a tool that states what a call executes, for the person who approves it.
type previewed struct {
	tool.Tool

	preview func(ctx context.Context, input json.RawMessage) (string, error)
}

// Preview returns what a call with this input executes. The engine calls it.
func (p previewed) Preview(ctx context.Context, input json.RawMessage) (string, error) {
	return p.preview(ctx, input)
}

// decodeInput returns the input of a call as [tool.Typed] decodes it.
func decodeInput[In any](input json.RawMessage) (In, error) {
	in, err := jsonlimit.UnmarshalAs[In](input)
	if err != nil {
		err = fmt.Errorf("the input does not match: %w", err)
	}

	return in, err
}

// changer returns a tool whose calls change a file as plan says. A call that a person has approved
// makes exactly the change that was shown.
func changer[In any](c *Config, spec tool.Spec, path func(*In) string, plan func(In) (change, error)) tool.Tool {
	prepare := func(ctx context.Context, input json.RawMessage, do func(In, change) error) error {
		in, err := decodeInput[In](input)
		if err != nil {
			return err
		}

		defer lock(c.Dir, path(&in))()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}

		planned, err := plan(in)
		if err != nil {
			return err
		}

		return do(in, planned)
	}
	call := func(ctx context.Context, call tool.Call) (tool.Result, error) {
		var result tool.Result
		err := prepare(ctx, call.Input, func(in In, planned change) error {
			if call.Approved != "" {
				now, err := c.show(path(&in), &planned)
				if err != nil {
					return err
				}

				if effectOf(now) != effectOf(call.Approved) {
					return fmt.Errorf("%s has changed since this call was approved, and was not changed: read it again", display(path(&in)))
				}
			}

			if err := c.write(path(&in), planned.after); err != nil {
				return err
			}

			result = c.result(planned.output())
			return nil
		})
		return result, err
	}
	preview := func(ctx context.Context, input json.RawMessage) (string, error) {
		var text string
		err := prepare(ctx, input, func(in In, planned change) (err error) {
			text, err = c.show(path(&in), &planned)
			return err
		})
		return text, err
	}
	return previewed{tool.New(spec, call), preview}
}

// change is what a call does to a file.
type change struct {
	before []byte // only with known
	after  []byte
	known  bool // before was read
	output func() string
}

// show returns the path and the difference of a change. The content of a file that a rule hides is
// not shown.
func (c *Config) show(path string, planned *change) (string, error) {
	rel, err := c.Dir.Resolve(path)
	if err != nil && (rel == "" || !errors.Is(err, fs.ErrNotExist)) {
		return "", pathError(c.Dir, path, err)
	}

	title, before := display(rel), planned.before
	if !planned.known && c.hidesPath(path) {
		title += " (a rule hides its present content)"
	} else if !planned.known {
		switch before, err = readWhole(c.Dir, path); {
		case err == nil:
		case exists(c, path):
			return "", err
		default:
			title += " (a new file)"
		}
	}

	return difference(title, before, planned.after), nil
}

func exists(c *Config, path string) bool {
	_, err := c.Dir.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

const (
	// maxCompared bounds the lines that are compared. If there are more between the first and the last
	// change, all of them are shown as replaced.
	maxCompared = 200_000

	noNewline = "\\ No newline at end of file\n"
)

// diffLine is one line of a difference.
type diffLine struct {
	mark byte // ' ', '-' or '+'
	text string
}

// difference returns a title and the lines that a change removes and adds, with context, in the
// unified format. No changed line is shortened.
func difference(title string, before, after []byte) string {
	old, changed := slices.Collect(bytes.Lines(before)), slices.Collect(bytes.Lines(after))
	start := 0
	for start < min(len(old), len(changed)) && bytes.Equal(old[start], changed[start]) {
		start++
	}

	end := 0
	for end < min(len(old), len(changed))-start && bytes.Equal(old[len(old)-1-end], changed[len(changed)-1-end]) {
		end++
	}

	begin, rest := max(0, start-editContext), max(0, end-editContext)
	rows := rowsOf(old[begin:len(old)-rest], changed[begin:len(changed)-rest])
	shown := make([]bool, len(rows))
	for i := range rows {
		if rows[i].mark != ' ' {
			for j := max(0, i-editContext); j <= min(len(rows)-1, i+editContext); j++ {
				shown[j] = true
			}
		}
	}

	out := append([]byte(title), '\n')
	line := map[byte]int{'-': begin + 1, '+': begin + 1}
	for i := 0; i < len(rows); {
		to := i
		count := map[byte]int{}
		for ; to < len(rows) && shown[to] == shown[i]; to++ {
			count[rows[to].mark]++
		}

		removed, added := count[' ']+count['-'], count[' ']+count['+']
		if shown[i] {
			out = fmt.Appendf(out, "@@ -%d,%d +%d,%d @@\n", line['-'], removed, line['+'], added)
			for _, r := range rows[i:to] {
				out = r.append(out)
			}
		}

		line['-'] += removed
		line['+'] += added
		i = to
	}

	return string(out)
}

func (r diffLine) append(out []byte) []byte {
	if r.mark == ' ' {
		r.text = strings.ToValidUTF8(r.text, "\uFFFD")
	}

	out = append(append(out, r.mark), r.text...)
	if !strings.HasSuffix(r.text, "\n") {
		out = append(append(out, '\n'), noNewline...)
	}

	return out
}

// effectOf returns a difference without the numbers of its lines.
func effectOf(text string) string {
	var effect strings.Builder
	for line := range strings.Lines(text) {
		if effect.Len() == 0 || line[0] != '@' { // the title, or not the head of a part
			effect.WriteString(line)
		}
	}

	return effect.String()
}

// rowsOf returns the lines of both texts, the removed ones before those that replace them.
func rowsOf(old, changed [][]byte) []diffLine {
	a, b := texts(old), texts(changed)
	to := match(a, b)
	rows := make([]diffLine, 0, len(a)+len(b))
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && to[i] == j:
			rows = append(rows, diffLine{' ', a[i]})
			i, j = i+1, j+1
		case i < len(a) && to[i] < 0:
			rows = append(rows, diffLine{'-', a[i]})
			i++
		default:
			rows = append(rows, diffLine{'+', b[j]})
			j++
		}
	}

	return rows
}

func texts(lines [][]byte) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = string(line)
	}

	return out
}

// match returns for each line of a the index of the equal line of b that remains, or -1. The
// indexes increase. The lines that occur once in both are found first, as far as their order is the
// same.
func match(a, b []string) []int {
	to := slices.Repeat([]int{-1}, len(a))
	i, j := 0, 0
	for _, anchor := range append(anchors(a, b), [2]int{len(a), len(b)}) {
		m, n := anchor[0], anchor[1]
		for ; i < m && j < n && a[i] == b[j]; i, j = i+1, j+1 {
			to[i] = j
		}

		for k := 1; m-k >= i && n-k >= j && a[m-k] == b[n-k]; k++ {
			to[m-k] = n - k
		}

		if m < len(a) {
			to[m] = n
		}

		i, j = m+1, n+1
	}

	return to
}

// anchors returns the longest sequence of increasing pairs of lines that occur once in a and once
// in b.
func anchors(a, b []string) [][2]int {
	if len(a)+len(b) > maxCompared {
		return nil
	}

	once := map[string][2]int{} // the index in b, and the number of times in both
	for i, line := range b {
		once[line] = [2]int{i, once[line][1] + 1}
	}

	seen := map[string]int{}
	for _, line := range a {
		seen[line]++
	}

	type link struct{ i, j, before int }
	var links []link
	var last []int // of the sequences of each length, the link whose j is the least
	for i, line := range a {
		if seen[line] != 1 || once[line][1] != 1 {
			continue
		}

		j := once[line][0]
		n, _ := slices.BinarySearchFunc(last, j, func(l, j int) int { return cmp.Compare(links[l].j, j) })
		before := -1
		if n > 0 {
			before = last[n-1]
		}

		if n == len(last) {
			last = append(last, 0)
		}

		last[n] = len(links)
		links = append(links, link{i, j, before})
	}

	if len(last) == 0 {
		return nil
	}

	pairs := make([][2]int, len(last))
	for n, l := len(last)-1, last[len(last)-1]; n >= 0; n, l = n-1, links[l].before {
		pairs[n] = [2]int{links[l].i, links[l].j}
	}

	return pairs
}
