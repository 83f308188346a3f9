package builtin

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/runtime/tool"
)

// maxLine is how many bytes of a line are shown.
const maxLine = 2000

// result is text as a tool answers it.
func (c *Config) result(text string) tool.Result {
	kept, cut := clip(text, c.MaxOutput)
	return tool.Result{Output: kept, Truncated: cut}
}

// clip cuts text to at most limit bytes: the head and the tail stay, and between them a line says how much is gone. The
// answer is valid UTF-8.
func clip(text string, limit int) (kept string, cut bool) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text, false
	}
	room := max(limit-len("\n[ bytes cut]\n")-len(strconv.Itoa(len(text))), 0)
	head := room / 2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	tail := len(text) - (room - room/2)
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return fmt.Sprintf("%s\n[%d bytes cut]\n%s", text[:head], tail-head, text[tail:]), true
}

// appendLine appends the text of a line, of which more bytes may follow that are not in it. The line's end is not part of it.
func appendLine(out []byte, line []byte, more int64) []byte {
	if len(line) > maxLine {
		end := maxLine
		for end > maxLine-utf8.UTFMax && !utf8.RuneStart(line[end]) {
			end--
		}
		more += int64(len(line) - end)
		line = line[:end]
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

// shown is a path as it stands in the output. One that would not stay on its line is quoted.
func shown(path string) string {
	path = strings.ToValidUTF8(path, "\uFFFD")
	if strings.ContainsFunc(path, unicode.IsControl) {
		return strconv.Quote(path)
	}
	return path
}

// plural is a number and its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
