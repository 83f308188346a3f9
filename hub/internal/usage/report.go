package usage

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Groups of a [Query].
const (
	ByDay   = "day"
	ByAgent = "agent"
	ByModel = "model"
	ByUser  = "user"
)

var allGroups = []string{ByDay, ByAgent, ByUser, ByModel}

// maxDays bounds the range of a report.
const maxDays = 400

// Query selects and groups the usage of a range of days in UTC, both included.
type Query struct {
	From, To time.Time
	By       []string // at least one of the groups

	Agent, User, Model string // only those, or "" for all; User is an id
}

func (in Query) validate() error {
	fields := map[string]string{}
	switch days := dayOf(in.To) - dayOf(in.From); {
	case days < 0:
		fields["to"] = "must not be before from"
	case days >= maxDays:
		fields["from"] = fmt.Sprintf("must be at most %d days before to", maxDays)
	}

	for _, group := range in.By {
		if !slices.Contains(allGroups, group) {
			fields["by"] = "must be a list of day, agent, user and model with commas between them"
		}
	}

	if len(in.By) == 0 {
		fields["by"] = "must not be empty"
	}

	for name, value := range map[string]string{"agent": in.Agent, "user": in.User, "model": in.Model} {
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) || len(value) > 1000 {
			fields[name] = "must be UTF-8 of at most 1000 bytes without NUL"
		}
	}

	return invalid(fields)
}

// invalid returns the error of parameters with faults, or nil.
func invalid(fields map[string]string) error {
	if len(fields) == 0 {
		return nil
	}

	const message = "Some parameters of the query are invalid: correct them."
	return &wire.Error{Code: wire.InvalidRequest, Message: message, Data: wire.ErrorData{Fields: fields}}
}

// slice returns the smallest slice with the dimensions of the query.
func (in Query) slice() string {
	user := in.User != "" || slices.Contains(in.By, ByUser)
	other := in.Agent != "" || in.Model != "" || slices.Contains(in.By, ByAgent) || slices.Contains(in.By, ByModel)
	switch {
	case user && other:
		return sliceAll
	case user:
		return sliceUser
	}

	return sliceAgent
}

// weeks returns the first day of the weeks that are the closest to the range, and the day after
// them. Reports by day have none.
func (in Query) weeks() (int64, int64) {
	nearest := func(day int64) int64 { return (day + weekDays/2) / weekDays * weekDays }
	first, after := nearest(dayOf(in.From)), nearest(dayOf(in.To)+1)
	if first >= after || slices.Contains(in.By, ByDay) {
		first = dayOf(in.From)
		return first, first
	}

	return first, after
}

// Report has the rows of a query, or a page of them, and the totals of all rows.
type Report struct {
	api.List[wire.UsageRow]

	From   string           `json:"from"` // 2006-01-02
	To     string           `json:"to"`
	Totals wire.UsageCounts `json:"totals"`
}

// Report returns a page of the rows of a query, and the totals of all rows: the days in their
// order, and in each of them the rows with the highest cost first. It fails with
// wire.InvalidRequest if there are more than 50,000 rows.
func (s *Service) Report(ctx context.Context, caller api.Caller, in Query, page api.Page) (Report, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Report{}, err
	}

	if err := in.validate(); err != nil {
		return Report{}, err
	}

	found, err := readRows(ctx, s.store.Read(), caller.TenantID, in, page.Size, page.Offset())
	if err != nil {
		return Report{}, err
	}

	if found.Total > maxRows {
		return Report{}, wire.InvalidRequest.New(fmt.Sprintf("The report has more than %d rows: choose fewer days or groups, or one agent or user.", maxRows))
	}

	found.From, found.To = dateOf(dayOf(in.From)), dateOf(dayOf(in.To))
	return found, nil
}

// csv returns the columns of the groups and the counts of all rows. All fields are quoted.
func (r Report) csv(by []string) []byte {
	var out []byte
	write := func(record []string) {
		for i, field := range record {
			if i > 0 {
				out = append(out, ',')
			}

			out = append(out, '"')
			out = append(out, strings.ReplaceAll(field, `"`, `""`)...)
			out = append(out, '"')
		}

		out = append(out, "\r\n"...)
	}
	columns := []struct {
		group, name string
		value       func(wire.UsageRow) string
	}{
		{ByDay, "day", func(r wire.UsageRow) string { return r.Day }},
		{ByAgent, "agentName", func(r wire.UsageRow) string { return cell(r.AgentName) }},
		{ByUser, "userId", func(r wire.UsageRow) string { return cell(r.UserID) }},
		{ByUser, "userName", func(r wire.UsageRow) string { return cell(r.UserName) }},
		{ByModel, "model", func(r wire.UsageRow) string { return cell(r.Model) }},
		{"", "runs", func(r wire.UsageRow) string { return number(r.Runs) }},
		{"", "inputTokens", func(r wire.UsageRow) string { return number(r.InputTokens) }},
		{"", "cacheReadTokens", func(r wire.UsageRow) string { return number(r.CacheReadTokens) }},
		{"", "cacheWriteTokens", func(r wire.UsageRow) string { return number(r.CacheWriteTokens) }},
		{"", "outputTokens", func(r wire.UsageRow) string { return number(r.OutputTokens) }},
		{"", "reasoningTokens", func(r wire.UsageRow) string { return number(r.ReasoningTokens) }},
		{"", "cost", func(r wire.UsageRow) string { return r.Cost.String() }},
		{"", "estimates", func(r wire.UsageRow) string { return number(r.Estimates) }},
	}
	record := []string{}
	for _, c := range columns {
		if c.group == "" || slices.Contains(by, c.group) {
			record = append(record, c.name)
		}
	}

	write(record)
	for _, row := range r.Items {
		record = record[:0]
		for _, c := range columns {
			if c.group == "" || slices.Contains(by, c.group) {
				record = append(record, c.value(row))
			}
		}

		write(record)
	}

	return out
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// formula matches a character that begins a formula, after one that is a separator of fields in a
// spreadsheet with other settings.
var formula = regexp.MustCompile(`([;,|\t\r\n"]\s*)([=+\-@])`)

// cell returns a text that a spreadsheet does not read as a formula: it gets an apostrophe if it
// does not begin with a letter or a digit, and before each character that formula matches.
func cell(text string) string {
	text = formula.ReplaceAllString(text, "$1'$2")
	first, _ := utf8.DecodeRuneInString(text)
	if text == "" || unicode.IsLetter(first) || unicode.IsDigit(first) {
		return text
	}

	return "'" + text
}
