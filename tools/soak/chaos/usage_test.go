package chaos_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// tokensOf returns the tokens that the upstream reports for the answer to a question.
func tokensOf(question string) wire.Usage {
	n := int64(crc32.ChecksumIEEE([]byte(question)))
	return wire.Usage{InputTokens: 100 + n%900, OutputTokens: 10 + n%90, CacheCreationInputTokens: n % 7, CacheReadInputTokens: n % 11}
}

// counts are those of runs in a report, without their cost.
type counts struct{ Runs, InputTokens, OutputTokens, CacheWriteTokens, CacheReadTokens, Estimates int64 }

func countsOf(runs int64, u wire.Usage) counts {
	c := counts{Runs: runs, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CacheWriteTokens: u.CacheCreationInputTokens, CacheReadTokens: u.CacheReadInputTokens}
	if u.Estimated {
		c.Estimates = runs
	}
	return c
}

// unknown are the most counts of a run whose end is not known. Each model may be estimated.
var unknown = counts{Runs: 1, InputTokens: maxEstimate, OutputTokens: maxEstimate, CacheWriteTokens: 10, CacheReadTokens: 10, Estimates: subagents + 1}

func (c counts) add(more counts) counts {
	return counts{
		c.Runs + more.Runs, c.InputTokens + more.InputTokens, c.OutputTokens + more.OutputTokens,
		c.CacheWriteTokens + more.CacheWriteTokens, c.CacheReadTokens + more.CacheReadTokens, c.Estimates + more.Estimates,
	}
}

// atMost reports whether no count is larger than that of another.
func (c counts) atMost(other counts) bool {
	return c.Runs <= other.Runs && c.InputTokens <= other.InputTokens && c.OutputTokens <= other.OutputTokens &&
		c.CacheWriteTokens <= other.CacheWriteTokens && c.CacheReadTokens <= other.CacheReadTokens && c.Estimates <= other.Estimates
}

// bounds are the least and the most that a report may have.
type bounds struct{ least, most counts }

func (b bounds) add(more bounds) bounds {
	return bounds{b.least.add(more.least), b.most.add(more.most)}
}

// group is a row of a report. The user of runs at /runtime is "".
type group struct{ agent, user string }

// conversation is a chat with questions.
type conversation struct{ agent, user, id string }

// usageBounds returns what the stored answers and the runs at /runtime have used. A stored end of
// an answer was counted in the same transaction. An answer without an end, whose hub was killed,
// and a run whose response has no end count at most once.
func (k *checker) usageBounds(ctx context.Context) map[group]bounds {
	all := map[group]bounds{}
	for chat := range k.c.asked {
		var list struct{ Items []message }
		if !k.get(ctx, "/api/v1/admin/chat/sessions/"+chat.id+"/messages?page_size=100", &list) {
			continue
		}
		for _, m := range list.Items {
			if m.Role == "user" {
				continue
			}
			end := countsOf(1, m.Usage)
			b := bounds{end, end}
			switch {
			case m.Status == "partial":
				b = bounds{most: unknown}
			case m.Status == "failed" && m.Usage == wire.Usage{}: // perhaps no runtime accepted it
				b.least = counts{}
			}
			of := group{chat.agent, chat.user}
			all[of] = all[of].add(b)
		}
	}
	for _, run := range k.c.runs {
		b := bounds{most: unknown}
		if run.acknowledged {
			b.most = countsOf(1, tokensOf(run.name))
			b.least = b.most
		}
		of := group{agent: agentName}
		all[of] = all[of].add(b)
	}
	for of, runs := range k.c.loose {
		for range runs {
			all[of] = all[of].add(bounds{most: unknown})
		}
	}
	return all
}

// checkUsage requires that the reports have what the answers and the runs have used, by agent and
// by user, and that they agree. A hub counts a run at /runtime within 3 s if the database took no
// changes at its end.
func (k *checker) checkUsage(ctx context.Context) {
	all := k.usageBounds(ctx)
	var findings []string
	_ = eventually(ctx, patience/4, func(ctx context.Context) error { // the error is one of the findings
		if findings = k.compareUsage(ctx, all); len(findings) > 0 {
			return errors.New(findings[0])
		}
		return nil
	})
	k.findings = append(k.findings, findings...)
}

// compareUsage compares the reports with what was used.
func (k *checker) compareUsage(ctx context.Context, all map[group]bounds) (findings []string) {
	find := func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) }
	totals := map[string]counts{}
	for _, by := range []string{"agent,user", "agent", "user"} {
		want := map[group]bounds{}
		for of, b := range all {
			if !strings.Contains(by, "agent") {
				of.agent = ""
			}
			if !strings.Contains(by, "user") {
				of.user = ""
			}
			want[of] = want[of].add(b)
		}
		rows, err := k.usageReport(ctx, by)
		if err != nil {
			find("%v", err)
			continue
		}
		for of, b := range want {
			if got := rows[of]; !b.least.atMost(got) || !got.atMost(b.most) {
				find("the usage by %s of %+v is %+v and not from %+v to %+v", by, of, got, b.least, b.most)
			}
		}
		for of, got := range rows {
			if _, ok := want[of]; !ok {
				find("the usage by %s has %+v, which had no runs: %+v", by, of, got)
			}
			totals[by] = totals[by].add(got)
		}
	}
	if totals["agent"] != totals["user"] || totals["agent"] != totals["agent,user"] {
		find("the reports of usage differ: %+v", totals)
	}
	return findings
}

// usageReport returns the rows of a report of all days of the test, also if a clock has jumped.
func (k *checker) usageReport(ctx context.Context, by string) (map[group]counts, error) {
	rows, now := map[group]counts{}, time.Now().UTC()
	path := fmt.Sprintf("/api/v1/admin/usage?by=%s&from=%s&to=%s", by, now.AddDate(0, 0, -2).Format(time.DateOnly), now.AddDate(0, 0, 2).Format(time.DateOnly))
	err := pages(ctx, k.c, path, func(row struct {
		AgentName, UserID string
		counts
	}) {
		of := group{row.AgentName, row.UserID}
		rows[of] = rows[of].add(row.counts)
	})
	return rows, err
}

// run runs the agent at /runtime.
func (c *client) run(ctx context.Context, _ *state) {
	question := "chat-" + rand.Text() + "#0"
	err := c.runDirectly(ctx, question)
	c.add(&c.runs, "runs", question, "", err)
}

// runDirectly runs the agent at /runtime. The error is nil if the response is complete.
func (c *client) runDirectly(ctx context.Context, question string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	res, err := c.open(ctx, http.MethodPost, "/runtime/"+agentName+"/v1/agents/"+agentName+"/runs", object{"message": question})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var result struct{ Subtype, Result string }
	for event, err := range sse.NewDecoder(res.Body).Events() {
		if err != nil {
			return err
		}
		if event.Type == "result" {
			if err := json.Unmarshal(event.Data, &result); err != nil {
				return err
			}
		}
	}
	if result.Subtype != "success" {
		return errors.New("the run has no result")
	}
	if result.Result != answerTo(question) {
		c.fault("a run at /runtime has another result: %q", result.Result)
	}
	return nil
}
