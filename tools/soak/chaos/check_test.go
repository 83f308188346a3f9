package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// checker compares the journals with what the API returns, after the last kill. It knows the
// contract, and nothing of the code.
type checker struct {
	in       *installation
	c        *client
	findings []string
}

func (k *checker) find(format string, args ...any) {
	k.findings = append(k.findings, fmt.Sprintf(format, args...))
}

// get requests what must be readable as soon as everything runs again.
func (k *checker) get(ctx context.Context, path string, out any) bool {
	err := eventually(ctx, patience, func(ctx context.Context) error {
		return k.c.call(ctx, http.MethodGet, path, nil, out)
	})
	if err != nil {
		k.find("%v", err)
	}
	return err == nil
}

// check returns what was lost, doubled, mixed or stuck.
func (k *checker) check(ctx context.Context) []string {
	k.findings = nil
	k.checkChats(ctx)
	k.checkPushes(ctx)
	k.checkAudit(ctx)
	k.checkTools(ctx)
	k.checkDeployments(ctx)
	k.checkUsage(ctx)
	k.checkBill(ctx)
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	for fault := range k.c.faults {
		k.find("%s", fault)
	}
	k.in.upstream.mu.Lock()
	defer k.in.upstream.mu.Unlock()
	k.findings = append(k.findings, k.in.upstream.mixed...)
	slices.Sort(k.findings)
	return k.findings
}

type message struct {
	Role, Text, Status string
	Usage              wire.Usage
}

// checkChats compares the chats. An answer whose hub was killed remains partial, and its chat must
// accept another question.
func (k *checker) checkChats(ctx context.Context) {
	for _, chat := range k.c.chats {
		var list struct{ Items []message }
		if !k.get(ctx, "/api/v1/admin/chat/sessions/"+chat.id+"/messages?page_size=100", &list) {
			continue
		}
		k.checkChat(chat, list.Items)
		if slices.ContainsFunc(list.Items, func(m message) bool { return m.Status == "partial" }) {
			if err := eventually(ctx, patience, func(ctx context.Context) error {
				_, err := chat.owner.ask(ctx, chat.id, chat.name+"#99")
				if errors.Is(err, errDenied) {
					err = errors.New(err.Error()) // an answer is in progress until its lease ends
				}
				return err
			}); err != nil {
				k.find("%s: no further question is answered: %v", chat.name, err)
			}
		}
	}
}

// checkChat compares a chat with its stored messages. A question that was not acknowledged may be
// stored, at its place.
func (k *checker) checkChat(chat *chat, stored []message) {
	for i, q := range chat.questions {
		if len(stored) == 0 || stored[0].Role != "user" || stored[0].Text != q.text {
			if q.stored {
				k.find("%s: the acknowledged question %d is missing", chat.name, i)
			}
			continue
		}
		stored = stored[1:]
		if len(stored) == 0 || stored[0].Role != "assistant" {
			if q.status != "" {
				k.find("%s: the acknowledged answer %d is missing", chat.name, i)
			}
			continue
		}
		answer := stored[0]
		stored = stored[1:]
		if q.status != "" && answer.Status != q.status {
			k.find("%s: answer %d was acknowledged as %s and is %s", chat.name, i, q.status, answer.Status)
		}
		if q.status != "" && answer.Usage != q.usage || answer.Status == "completed" && answer.Usage != tokensOf(q.text) {
			k.find("%s: answer %d has the usage %+v: %+v was acknowledged, and the model has reported %+v", chat.name, i, answer.Usage, q.usage, tokensOf(q.text))
		}
		if !strings.HasPrefix(answerTo(q.text), answer.Text) || answer.Status == "completed" && answer.Text != answerTo(q.text) {
			k.find("%s: answer %d is %s and not the one to its question: %q", chat.name, i, answer.Status, answer.Text)
		}
	}
	for _, m := range stored {
		k.find("%s: a message has no question: %.100q", chat.name, m.Text)
	}
}

func (k *checker) checkPushes(ctx context.Context) {
	for _, push := range k.c.pushes {
		var list struct{ Items []message }
		err := k.c.call(ctx, http.MethodGet, "/api/v1/agents/"+agentName+"/chat/sessions/"+push.name+"/messages", nil, &list)
		switch {
		case err != nil && push.acknowledged:
			k.find("the acknowledged push %s: %v", push.name, err)
		case err == nil && (len(list.Items) != 1 || list.Items[0].Text != push.content):
			k.find("the push %s is stored as %v", push.name, list.Items)
		}
	}
}

// entry is an entry of the audit log.
type entry struct {
	ID, UserName, Action, TargetType, TargetName, Status string
	CreatedAt                                            time.Time
}

func (e entry) number() uint64 {
	n, _ := strconv.ParseUint(e.ID, 10, 64)
	return n
}

// before reports whether a page may have e after last.
func (e entry) before(last entry) bool {
	return e.CreatedAt.Before(last.CreatedAt) || e.CreatedAt.Equal(last.CreatedAt) && e.number() < last.number()
}

// checkAudit requires a complete log that verifies, and one entry for each change and sign-in.
func (k *checker) checkAudit(ctx context.Context) {
	var verified struct {
		OK      bool
		Checked int
	}
	var head struct {
		SnapshotID string `json:"snapshotId"`
	}
	if !k.get(ctx, "/api/v1/admin/audit-logs/verify", &verified) || !k.get(ctx, "/api/v1/admin/audit-logs", &head) {
		return
	}
	if !verified.OK {
		k.find("the hash chain of the audit log does not verify")
	}
	changes, logins, count := map[string]int{}, 0, uint64(0)
	if err := pages(ctx, k.c, "/api/v1/admin/audit-logs?snapshotId="+head.SnapshotID, func(e entry) {
		count++
		switch {
		case e.Status != "success":
		case e.Action == "auth.login" && e.UserName == loginUser:
			logins++
		case strings.Contains(e.Action, "create") || strings.Contains(e.Action, "upload"):
			changes[e.TargetType+" "+e.TargetName]++
		}
	}); err != nil {
		k.find("%v", err)
		return
	}
	if want := (entry{ID: head.SnapshotID}).number(); count != want {
		k.find("the audit log has %d entries up to %d", count, want)
	}
	k.compare(ctx, "scene", k.c.scenes, changes)
	k.compare(ctx, "tool", k.c.tools, changes)
	var acknowledged int
	for _, login := range k.c.logins {
		if login.acknowledged {
			acknowledged++
		}
	}
	if logins < acknowledged || logins > len(k.c.logins) {
		k.find("the audit log has %d logins: %d were sent, and %d acknowledged", logins, len(k.c.logins), acknowledged)
	}
}

// compare compares writes with the list of their kind, and with the audit log.
func (k *checker) compare(ctx context.Context, kind string, writes []write, changes map[string]int) {
	exists := map[string]bool{}
	if err := pages(ctx, k.c, "/api/v1/admin/"+kind+"s?q="+kind, func(item struct{ Name string }) { exists[item.Name] = true }); err != nil {
		k.find("%v", err)
		return
	}
	for _, w := range writes {
		recorded := changes[kind+" "+w.name]
		if w.acknowledged && !exists[w.name] {
			k.find("the acknowledged %s %s is missing", kind, w.name)
		}
		if exists[w.name] && recorded != 1 || !exists[w.name] && recorded != 0 {
			k.find("the %s %s exists: %t, and has %d entries in the audit log", kind, w.name, exists[w.name], recorded)
		}
	}
}

func (k *checker) checkTools(ctx context.Context) {
	for _, tool := range k.c.tools {
		var content string
		err := k.c.call(ctx, http.MethodGet, "/api/v1/admin/tools/"+tool.name+"/download", nil, &content)
		switch {
		case err != nil && tool.acknowledged:
			k.find("the file of the acknowledged tool %s: %v", tool.name, err)
		case err == nil && content != tool.content:
			k.find("the file of the tool %s is %.100q", tool.name, content)
		}
	}
}

// checkDeployments requires that the deployment runs once and answers, that the one which was moved
// obeys, and that exchanged refresh tokens are rejected.
func (k *checker) checkDeployments(ctx context.Context) {
	if err := eventually(ctx, patience, func(ctx context.Context) error {
		_, err := k.in.probe(ctx, k.c)
		return err
	}); err != nil {
		k.find("no chat is possible: %v", err)
	}
	if err := k.in.await(ctx, k.c, agentName, "running"); err != nil {
		k.find("%v", err)
	}
	moved := "/api/v1/admin/agents/" + movedAgent + "/deploy"
	for _, step := range []struct{ method, path, state string }{
		{http.MethodPost, moved, "running"}, {http.MethodPost, moved + "/stop", "stopped"}, {http.MethodDelete, moved, "not_deployed"},
	} {
		if err := eventually(ctx, patience, func(ctx context.Context) error {
			return k.c.call(ctx, step.method, step.path, nil, nil)
		}); err != nil {
			k.find("%v", err)
		} else if err := k.in.await(ctx, k.c, movedAgent, step.state); err != nil {
			k.find("%v", err)
		}
	}
	k.checkProcesses(ctx, 2)
	for _, token := range k.c.revoked[max(0, len(k.c.revoked)-5):] {
		if err := k.c.call(ctx, http.MethodPost, "/auth/refresh", object{"refresh_token": token}, nil); err == nil {
			k.find("a refresh token was accepted twice")
		}
	}
}

// checkProcesses requires as many runtimes as deployments that run.
func (k *checker) checkProcesses(ctx context.Context, want int) {
	if err := eventually(ctx, patience/4, func(context.Context) error {
		if pids := processes(k.in.program, agentvalue.DeployedArg); len(pids) != want {
			return fmt.Errorf("the runtimes %v exist, and %d are deployed", pids, want)
		}
		return nil
	}); err != nil {
		k.find("%v", err)
	}
}
