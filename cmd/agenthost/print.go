package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/wire"
)

// field is a named value of an object: a cell of a table, or a line. In a list, the fields of the
// zero object name the columns.
type field struct {
	name  string
	value any
}

// text returns the value as the user reads it.
func (f field) text() string {
	switch v := f.value.(type) {
	case bool:
		return yes(v)
	case time.Time:
		return day(v)
	case wire.Time:
		return day(v.Time)
	case []string:
		return strings.Join(v, ", ")
	case reference:
		return v.String()
	default:
		return fmt.Sprint(v)
	}
}

// whole returns the value as a script needs it.
func (f field) whole() string {
	if id, ok := f.value.(reference); ok {
		return string(id)
	}

	return f.text()
}

// maxCell is the largest number of characters in a cell of a table.
const maxCell = 60

// printList prints a list as a table, a JSON array or YAML; and with --quiet the first field.
func printList[T any](a *app, items iter.Seq2[T, error], fields func(T) []field) error {
	if a.format != "table" {
		all := []T{}
		for item, err := range items {
			if err != nil {
				return err
			}

			all = append(all, item)
		}

		return a.encode(all)
	}

	table := tabwriter.NewWriter(a.stdout, 0, 0, 3, ' ', 0)
	var names []string
	for _, f := range fields(*new(T)) {
		names = append(names, strings.ToUpper(f.name))
	}

	if !a.quiet {
		fmt.Fprintln(table, strings.Join(names, "\t"))
	}

	rows := 0
	for item, err := range items {
		if err != nil {
			if rows > 0 {
				_ = table.Flush() // the rows before the error
			}

			return err
		}

		rows++
		fmt.Fprintln(table, strings.Join(a.row(fields(item)), "\t"))
	}

	return table.Flush()
}

// part are the flags for a part of a list that may be long.
type part struct {
	limit, page int
	all         bool
}

func (p *part) flags(cmd *cobra.Command, items string) {
	cmd.Flags().IntVarP(&p.limit, "limit", "n", 100, "largest `number` of "+items)
	cmd.Flags().IntVar(&p.page, "page", 1, "`number` of the page")
	cmd.Flags().BoolVar(&p.all, "all", false, "list all "+items)
	cmd.MarkFlagsMutuallyExclusive("all", "limit")
	cmd.MarkFlagsMutuallyExclusive("all", "page")
}

// pageOf returns a part of a list, and notes how to see what follows it.
func pageOf[T any](a *app, p part, all iter.Seq2[T, error]) iter.Seq2[T, error] {
	if p.all {
		return all
	}

	return func(yield func(T, error) bool) {
		if p.limit < 1 || p.page < 1 {
			var none T
			yield(none, usage("--limit and --page begin with 1"))
			return
		}

		n := 0
		for item, err := range all {
			if err == nil {
				n++
			}

			switch {
			case n > p.limit*p.page:
				a.note("There are more: add --page %d, or --all.", p.page+1)
				return
			case err == nil && n <= p.limit*(p.page-1):
			case !yield(item, err):
				return
			}
		}
	}
}

// seq returns the items of a list that has no pages.
func seq[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// row returns the cells of an object. With --quiet it returns only the first value, unchanged, for
// scripts.
func (a *app) row(fields []field) []string {
	if a.quiet {
		return []string{oneLine(fields[0].whole())}
	}

	var cells []string
	for _, f := range fields {
		cells = append(cells, cell(f.text()))
	}

	return cells
}

// cell returns a value on one line, without characters that change the terminal.
func cell(value string) string {
	value = oneLine(value)
	if runes := []rune(value); len(runes) > maxCell {
		return string(runes[:maxCell-1]) + "…"
	}

	return value
}

// printOne prints an object as lines of its fields, as JSON or as YAML; and with --quiet the first
// field.
func (a *app) printOne(item any, fields ...field) error {
	if a.format != "table" {
		return a.encode(item)
	}

	if a.quiet {
		_, err := fmt.Fprintln(a.stdout, fields[0].whole())
		return err
	}

	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if text := f.text(); text != "" {
			fmt.Fprintf(table, "%s:\t%s\n", f.name, printable(text))
		}
	}

	return table.Flush()
}

// encode prints a value as JSON or YAML.
func (a *app) encode(value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print: %w", err)
	}

	if a.format == "yaml" {
		data, err := yamlOf(text.Bytes())
		if err != nil {
			return err
		}

		text = *bytes.NewBuffer(data)
	}

	_, err := a.stdout.Write(text.Bytes())
	return err
}

// yamlOf converts JSON to YAML with the fields in the same order.
func yamlOf(data []byte) ([]byte, error) {
	var node yaml.Node // JSON is YAML
	if err := yaml.Unmarshal(data, &node); err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}

	plain(&node)
	return yaml.Marshal(&node)
}

// plain removes the style of JSON.
func plain(node *yaml.Node) {
	node.Style = 0
	for _, child := range node.Content {
		plain(child)
	}
}

// printable replaces the characters that change a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}

		return r
	}, text)
}

func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(printable(text))
}

// note prints progress to stderr, unless --quiet is set.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// result prints the outcome of a change, unless --quiet is set.
func (a *app) result(format string, args ...any) error {
	if a.quiet {
		return nil
	}

	_, err := fmt.Fprintf(a.stdout, format+"\n", args...)
	return err
}

// day returns a time of the hub in the zone of the user.
func day[T interface {
	IsZero() bool
	Local() time.Time
}](t T) string {
	if t.IsZero() {
		return ""
	}

	return t.Local().Format("2006-01-02 15:04")
}

func yes(b bool) string {
	if b {
		return "yes"
	}

	return "no"
}
