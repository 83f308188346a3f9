package deployment

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/internal/agentvalue"

	"github.com/seed93082962/agenthost/hub/internal/api"
)

// reason returns why a runtime ended: the messages of the last warnings and errors in its log,
// which members may read. Other lines are for those who may read logs: they may be stack traces, or
// output of tools. It reports whether the runtime has said that another start would end too.
func (w *worker) reason(ctx context.Context, r deploy.Runtime) (string, bool) {
	lines, err := w.s.driver.Logs(ctx, w.ref, r.Revision, reasonTail)
	messages := logMessages(lines)
	own := func(message string) bool { return message == agentvalue.UnusableMessage }
	unusable := slices.ContainsFunc(messages, own)
	messages = slices.DeleteFunc(messages, own)
	if err != nil {
		messages = []string{"its log cannot be read"}
	}

	messages = latest(messages)
	if r.Message != "" {
		messages = append([]string{r.Message}, messages...)
	}

	if len(messages) == 0 {
		messages = []string{"see its log"}
	}

	return bounded(strings.Join(messages, "\n")), unusable
}

// latest returns the last messages, each only once: a runtime that was started again repeats them.
func latest(messages []string) []string {
	var last []string
	for _, message := range slices.Backward(messages) {
		if len(last) < errorLines && !slices.Contains(last, message) {
			last = append(last, message)
		}
	}

	slices.Reverse(last)
	return last
}

const (
	reasonTail = 200 // lines that reason reads
	errorLines = 5
	maxError   = 2000 // bytes
)

// endings begin the line with the error of the runtime command.
var endings = []string{"hub: ", "runtime: "}

// logMessages returns the messages in the lines of a runtime's log that are warnings or errors of
// its logger, and the error with which its command ended.
func logMessages(lines []string) (messages []string) {
	for i, line := range lines {
		var entry struct {
			Level   string `json:"level"`
			Message string `json:"message"`
			Err     string `json:"err"`
			Panic   any    `json:"panic"`
		}
		begins := func(prefix string) bool { return strings.HasPrefix(line, prefix) }
		switch {
		case json.Unmarshal([]byte(line), &entry) == nil:
			if entry.Panic != nil || !slices.Contains([]string{"warn", "error", "fatal"}, entry.Level) {
				continue
			}

			if entry.Err != "" {
				entry.Message += ": " + firstLine(entry.Err)
			}

			messages = append(messages, entry.Message)
		case i >= len(lines)-errorLines && slices.ContainsFunc(endings, begins) && !repeats(line, messages):
			messages = append(messages, line)
		}
	}

	return messages
}

// repeats reports whether a line has the cause of a message: a runtime also logs why it ends.
func repeats(line string, messages []string) bool {
	return slices.ContainsFunc(messages, func(message string) bool {
		_, cause, found := strings.Cut(message, ": ")
		return found && strings.Contains(line, cause)
	})
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// text returns an error for the user.
func text(err error) string { return bounded(err.Error()) }

// bounded returns the end of a text, as valid UTF-8.
func bounded(s string) string {
	if len(s) > maxError {
		s = s[len(s)-maxError:]
	}

	lines := strings.Split(strings.ToValidUTF8(s, ""), "\n")
	for i := range lines {
		lines[i] = api.Plain(lines[i])
	}

	return strings.Join(lines, "\n")
}
