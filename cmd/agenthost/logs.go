package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
)

// logInterval is the time between two requests of logs -f.
const logInterval = 500 * time.Millisecond

func (a *app) logsCommand() *cobra.Command {
	var lines int
	var follow bool
	cmd := a.command(action{
		use: "logs AGENT", short: "Print the log of the runtime of an agent",
		long:    "Prints the log of the runtime of an agent, without requests that only read its state. With -o json, it prints the lines as the\nruntime wrote them.",
		example: "  agenthost logs helper --tail 50\n  agenthost logs helper -f\n  agenthost logs helper -o json | jq -r .message",
		args:    []string{"AGENT"}, complete: agentNames,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			written, err := c.Deployments.Logs(ctx, args[0], maxLogLines)
			if err != nil {
				return err
			}

			last := a.readable(written)
			a.printLines(last[max(0, len(last)-max(0, lines)):])
			if !follow {
				return nil
			}

			return a.followLog(ctx, c, args[0], written)
		},
	})
	cmd.Flags().IntVar(&lines, "tail", 100, "`number` of lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue with lines that are written later, until Ctrl-C")
	return cmd
}

// followLog prints the lines that are written after the printed ones, until ctx ends.
func (a *app) followLog(ctx context.Context, c *client.Client, agent string, printed []string) error {
	tick := time.NewTicker(logInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}

		now, err := c.Deployments.Logs(ctx, agent, maxLogLines)
		if ctx.Err() != nil {
			return nil
		}

		if err != nil {
			return err
		}

		a.printLines(a.readable(after(now, printed)))
		printed = now
	}
}

// maxLogLines is the largest number of lines that a hub returns.
const maxLogLines = 5000

func (a *app) printLines(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(a.stdout, printable(line))
	}
}

// readable returns the lines of a log as a person reads them, or unchanged for a program.
func (a *app) readable(lines []string) []string {
	if a.format != "table" {
		return lines
	}

	var all []string
	for _, line := range lines {
		if text := logLine(line); text != "" {
			all = append(all, text)
		}
	}

	return all
}

// logLine returns a line of a log as time, level, message and other values, with the ends of ids,
// or "" for a request that only reads the state of the runtime. Any other line is returned
// unchanged.
func logLine(line string) string {
	decoder := json.NewDecoder(strings.NewReader(line))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return line
	}

	values := map[string]string{}
	var rest strings.Builder
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return line
		}

		var value any
		if err := decoder.Decode(&value); err != nil {
			return line
		}

		switch key := fmt.Sprint(name); key {
		case "time", "level", "message":
			values[key] = fmt.Sprint(value)
		default:
			values[key] = logValue(value)
			rest.WriteString(" " + key + "=" + values[key])
		}
	}

	if _, err := decoder.Token(); err != nil || decoder.More() {
		return line
	}

	when, err := time.Parse(time.RFC3339, values["time"])
	switch {
	case err != nil || values["message"] == "":
		return line
	case values["message"] == "request" && values["method"] == http.MethodGet && values["status"] == "200" && readsState(values["path"]):
		return ""
	}

	text := fmt.Sprintf("%s %-5s %s%s", when.Local().Format(time.DateTime), strings.ToUpper(values["level"]), values["message"], rest.String())
	return anyUUID.ReplaceAllStringFunc(text, func(id string) string { return reference(id).String() })
}

// readsState reports whether a hub requests the path to observe a runtime.
func readsState(path string) bool {
	name, agent := strings.CutPrefix(path, "/v1/agents")
	return agent && strings.Count(name, "/") <= 1 || strings.HasPrefix(path, "/health")
}

// logValue returns a value of a log, quoted if it has several words.
func logValue(value any) string {
	text, ok := value.(string)
	if !ok {
		data, _ := json.Marshal(value) // it was decoded from JSON
		text = string(data)
	}

	if ok && strings.ContainsAny(text, " \t\n\"=") {
		return strconv.Quote(text)
	}

	return text
}

// after returns the lines that follow those which were printed. The first lines are the end of the
// printed ones, unless more were written than the hub returns.
func after(lines, printed []string) []string {
	for len(printed) > len(lines) || !slices.Equal(lines[:len(printed)], printed) {
		printed = printed[1:]
	}

	return lines[len(printed):]
}
