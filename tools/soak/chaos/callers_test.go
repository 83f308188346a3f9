package chaos_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	random "math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// callers are what uses an installation at the same time, each again and again. Each has a pause
// after a step, which keeps the rate low: the test looks for lost writes, not for the capacity.
var callers = []struct {
	name  string
	count int
	pause time.Duration
	step  func(c *client, ctx context.Context, state *state)
}{
	{"chats", 8, 50 * time.Millisecond, (*client).chat},
	{"runs", 2, 50 * time.Millisecond, (*client).run},
	{"spending", 4, 100 * time.Millisecond, (*client).spend},
	{"pushes", 2, 100 * time.Millisecond, (*client).push},
	{"logins", 2, 200 * time.Millisecond, (*client).signIn},
	{"scenes", 2, 50 * time.Millisecond, (*client).createScene},
	{"tools", 1, 300 * time.Millisecond, (*client).uploadTool},
	{"deployments", 1, 500 * time.Millisecond, (*client).deploy},
	{"audit", 1, 200 * time.Millisecond, (*client).readAudit},
}

// state is what a caller remembers between its steps.
type state struct {
	chat      *chat
	refresh   string // the latest token
	refreshed int    // since the login
	deploys   int
}

// chat is a chat in the journal. Only one caller writes it.
type chat struct {
	owner     *client
	name, id  string
	questions []asked
}

// asked is a question that was sent.
type asked struct {
	text   string
	stored bool   // the hub acknowledged the message
	status string // the acknowledged one of the answer, or ""
	usage  wire.Usage
}

// chat sends a question, in a new chat of a random user after every fifth one.
func (c *client) chat(ctx context.Context, s *state) {
	if s.chat == nil || len(s.chat.questions) == 5 {
		next := &chat{name: "chat-" + rand.Text(), owner: c.users[random.IntN(len(c.users))]}
		var err error
		next.id, err = next.owner.newChat(ctx, agentName, next.name)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count("chats", err)
		s.chat = nil
		if err == nil {
			s.chat = next
			c.chats = append(c.chats, next)
		}
		return
	}
	q, err := s.chat.owner.ask(ctx, s.chat.id, fmt.Sprintf("%s#%d", s.chat.name, len(s.chat.questions)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count("questions", err)
	if !errors.Is(err, errDenied) {
		s.chat.questions = append(s.chat.questions, q)
	}
}

// newChat creates a chat with an agent and returns its id.
func (c *client) newChat(ctx context.Context, agent, title string) (string, error) {
	var session struct{ ID string }
	err := c.call(ctx, http.MethodPost, "/api/v1/agents/"+agent+"/chat/sessions", object{"title": title}, &session)
	return session.ID, err
}

// ask is askAgent with the agent of most chats, for the time of a request.
func (c *client) ask(ctx context.Context, id, text string) (asked, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return c.askAgent(ctx, agentName, id, text)
}

// askAgent sends a question and reads the answer to its end. The error is nil if the answer is
// stored and complete.
func (c *client) askAgent(ctx context.Context, agent, id, text string) (asked, error) {
	c.mu.Lock()
	c.asked[conversation{agent, c.user, id}] = true
	c.mu.Unlock()
	if random.IntN(2) == 0 {
		return c.readAgain(ctx, agent, id, text)
	}
	q := asked{text: text}
	res, err := c.open(ctx, http.MethodPost, "/api/v1/agents/"+agent+"/chat/sessions/"+id+"/messages", object{"message": text})
	if err != nil {
		return q, err
	}
	defer res.Body.Close()
	for event, err := range sse.NewDecoder(res.Body).Events() {
		if err != nil {
			return q, err
		}
		var data struct {
			Type, Status string
			Usage        wire.Usage
		}
		if err := json.Unmarshal(event.Data, &data); err != nil {
			c.fault("the event %s of an answer is not JSON: %s", event.Type, event.Data)
		}
		q.stored = q.stored || event.Type == "hub"
		if data.Type == "hub.saved" {
			q.status, q.usage = data.Status, data.Usage
		}
	}
	if q.status != "completed" {
		return q, fmt.Errorf("the answer is %q", q.status)
	}
	return q, nil
}

// push uploads a session with one message.
func (c *client) push(ctx context.Context, _ *state) {
	const at = "2026-01-01T00:00:00Z"
	id, content := "push-"+rand.Text(), "pushed "+rand.Text()
	var out struct{ Accepted int }
	err := c.call(ctx, http.MethodPost, "/api/v1/chat/push", object{"sessions": []object{{
		"id": id, "agent_name": agentName, "title": id, "created_at": at, "updated_at": at,
		"messages": []object{{"id": "1", "role": "user", "content": content, "created_at": at}},
	}}}, &out)
	if err == nil && out.Accepted != 1 {
		err = errDenied
	}
	c.add(&c.pushes, "pushes", id, content, err)
}

// signIn signs in, and then uses the refresh token three times.
func (c *client) signIn(ctx context.Context, s *state) {
	var pair struct {
		Refresh string `json:"refresh_token"`
	}
	if s.refresh != "" && s.refreshed < 3 {
		old := s.refresh
		err := c.call(ctx, http.MethodPost, "/auth/refresh", object{"refresh_token": old}, &pair)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.count("refreshes", err)
		if err == nil {
			c.revoked = append(c.revoked, old)
		}
		s.refresh = pair.Refresh
		s.refreshed++
		return
	}
	err := c.call(ctx, http.MethodPost, "/auth/login", object{"username": loginUser, "password": password}, &pair)
	c.add(&c.logins, "logins", loginUser, "", err)
	s.refresh, s.refreshed = pair.Refresh, 0
}

func (c *client) createScene(ctx context.Context, _ *state) {
	name := "scene-" + strings.ToLower(rand.Text())
	err := c.call(ctx, http.MethodPost, "/api/v1/admin/scenes", object{"name": name, "title": name, "agentName": agentName}, nil)
	c.add(&c.scenes, "scenes", name, name, err)
}

// uploadTool uploads a file, which is stored in the storage and in the database.
func (c *client) uploadTool(ctx context.Context, _ *state) {
	name := "tool_" + strings.ToLower(rand.Text())
	content := fmt.Sprintf("export default {name: %q, description: \"d\", inputSchema: {type: \"object\"}, call() { return %[1]q }}\n", name)
	err := c.call(ctx, http.MethodPost, "/api/v1/admin/tools", fileUpload(name+".ts", content), nil)
	c.add(&c.tools, "tools", name, content, err)
}

// deploy changes the desired state of another agent.
func (c *client) deploy(ctx context.Context, s *state) {
	path := "/api/v1/admin/agents/" + movedAgent + "/deploy"
	steps := []struct{ method, path string }{
		{http.MethodPost, path}, {http.MethodPost, path + "/stop"}, {http.MethodPost, path + "/start"}, {http.MethodDelete, path},
	}
	step := steps[s.deploys%len(steps)]
	s.deploys++
	err := c.call(ctx, step.method, step.path, nil, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count("deployments", err)
}

// readAudit reads three pages of a snapshot, which must be the same view.
func (c *client) readAudit(ctx context.Context, _ *state) {
	var list struct {
		Items      []entry
		Total      int
		SnapshotID string `json:"snapshotId"`
	}
	snapshot, total, last := "", 0, entry{}
	var err error
	for page := 1; page <= 3 && err == nil; page++ {
		list.Items = nil
		if err = c.call(ctx, http.MethodGet, fmt.Sprintf("/api/v1/admin/audit-logs?page_size=50&page=%d%s", page, snapshot), nil, &list); err != nil {
			break
		}
		if page > 1 && list.Total != total {
			c.fault("the total of a snapshot of the audit log changed from %d to %d", total, list.Total)
		}
		for _, e := range list.Items {
			if last.ID != "" && !e.before(last) {
				c.fault("a snapshot of the audit log has the entry %s after %s", e.ID, last.ID)
			}
			last = e
		}
		snapshot, total = "&snapshotId="+list.SnapshotID, list.Total
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count("audit reads", err)
}
