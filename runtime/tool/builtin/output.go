package builtin

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/tool"
)

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
