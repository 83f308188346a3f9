package hub_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const (
	openAI      = "/openai/v1"
	completions = openAI + "/chat/completions"
	responses   = openAI + "/responses"
)

// listen opens a WebSocket connection, on which a response is in progress.
func (s *server) listen(token string) *websocket.Conn {
	s.t.Helper()
	conn, _, err := websocket.Dial(s.t.Context(), s.url+responses, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	require.NoError(s.t, conn.Write(s.t.Context(), websocket.MessageText, []byte(`{"type":"response.create","model":"helper","input":"hello"}`)))
	for text := ""; !strings.Contains(text, "Half"); {
		_, data, err := conn.Read(s.t.Context())
		require.NoError(s.t, err)
		text = string(data)
	}
	return conn
}

// Every answer of a user whose access ends is cancelled in the hub that relays it, and its client
// receives the end: streams, other responses, those in the background, and connections.
func TestAccessEndsForClientsOfOpenAI(t *testing.T) {
	t.Parallel()
	s := openSpender(t, postgres(t), modeltest.Text("Half"), modeltest.Hang())
	own := s.hubs[0]
	for _, end := range []string{"disabled", "signedout", "deleted", "revoked"} {
		for i, relay := range s.hubs {
			user := end + []string{"-own", "-other"}[i]
			access := own.join(s.admin, "maintainer", user)
			me := users + "/" + own.call("GET", "/auth/userinfo", access, "").want(200)["id"].(string)
			token, revoke := access, ""
			if end == "revoked" {
				issued := own.call("POST", issue, access, `{"name":"ci"}`).want(201)
				token, revoke = issued["token"].(string), tokens+"/"+issued["id"].(string)
			}

			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var open sync.WaitGroup
			ended := make(chan [2]string, 10)
			for _, request := range [][2]string{
				{completions, `{"model":"helper","messages":[{"role":"user","content":"a"}]}`},
				{completions, `{"model":"helper","stream":true,"messages":[{"role":"user","content":"b"}]}`},
				{responses, `{"model":"helper","input":"c"}`}, {responses, `{"model":"helper","stream":true,"input":"d"}`},
			} {
				open.Go(func() {
					res, err := relay.try(ctx, "POST", request[0], token, request[1])
					if err != nil {
						res.text = err.Error()
					}
					ended <- [2]string{request[1], res.text}
				})
			}
			background := relay.call("POST", responses, token, `{"model":"helper","input":"e","background":true}`).want(200)["id"].(string)
			conn := relay.listen(token)
			require.Eventually(t, func() bool {
				list := own.call("GET", "/api/v1/admin/runs", s.admin, "").want(200)["items"].([]any)
				return len(list) == 6
			}, time.Minute, 10*time.Millisecond)

			switch end {
			case "disabled":
				own.call("PATCH", me, s.admin, `{"status":"disabled"}`).want(200)
			case "signedout":
				own.call("DELETE", me+"/sessions", s.admin, "").want(204)
			case "deleted":
				own.call("DELETE", me, s.admin, "").want(204)
			case "revoked":
				own.call("DELETE", revoke, access, "").want(204)
			}
			began := time.Now()
			var last string
			for err := error(nil); err == nil; {
				var data []byte
				if _, data, err = conn.Read(ctx); err == nil {
					last = string(data)
				}
			}
			require.NoError(t, ctx.Err(), user)
			require.Contains(t, last, `"response.failed"`, user)
			open.Wait()
			took := time.Since(began)
			t.Logf("%s: all ended after %v", user, took)
			require.Less(t, took, 10*time.Second, user)
			for range 4 {
				one := <-ended
				if strings.Contains(one[0], "messages") {
					require.NotContains(t, one[1], "[DONE]", one[0])
				}
				require.NotContains(t, one[1], `"response.completed"`, one[0])
				require.Contains(t, one[1], "the run was cancelled", one[0])
			}
			cancel()
			require.Eventually(t, func() bool {
				return len(own.call("GET", "/api/v1/admin/runs", s.admin, "").want(200)["items"].([]any)) == 0
			}, time.Minute, 10*time.Millisecond)
			var refused response
			require.Eventually(t, func() bool { // the other hub reads it within 2 s
				refused = relay.call("GET", responses+"/"+background, token, "")
				return refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden
			}, time.Minute, 10*time.Millisecond)
			require.Contains(t, refused.text, `"type":"invalid_request_error"`)
			chats := own.call("GET", allChats+"?user="+user, s.admin, "").want(200)["items"].([]any)
			if end != "deleted" {
				require.Len(t, chats, 6, user)
			}
			for _, chat := range chats {
				list := own.call("GET", allChats+"/"+chat.(map[string]any)["id"].(string)+"/messages", s.admin, "").want(200)["items"].([]any)
				require.Equal(t, "cancelled", list[len(list)-1].(map[string]any)["status"], user)
			}
		}
	}
	require.EqualValues(t, 4*2*6, s.runs(), "all of them count")
}

// The log has what a CLI token changes, and its requests after the account of its user was
// disabled.
func TestTheAuditOfClientsOfOpenAI(t *testing.T) {
	t.Parallel()
	s := openSpender(t, postgres(t), modeltest.Text("Right."))
	own := s.hubs[0]
	access := own.join(s.admin, "maintainer", "mia")
	issued := own.call("POST", issue, access, `{"name":"ci"}`).want(201)
	token := issued["token"].(string)
	id := own.call("POST", responses, token, `{"model":"helper","input":"hello"}`).want(200)["id"].(string)
	require.Eventually(t, func() bool {
		list := own.call("GET", tokens, access, "").want(200)["items"].([]any)
		return list[0].(map[string]any)["lastUsedAt"] != nil
	}, time.Minute, 10*time.Millisecond)
	own.call("DELETE", responses+"/"+id, token, "").want(200)
	log := own.call("GET", "/api/v1/admin/audit-logs?action=agent.delete_chat", s.admin, "").want(200)["items"].([]any)
	require.Len(t, log, 1)
	entry := log[0].(map[string]any)
	require.Equal(t, []any{"mia", "success", "helper"}, []any{entry["userName"], entry["status"], entry["targetName"]})
	detail, err := json.Marshal(entry["detail"])
	require.NoError(t, err)
	require.JSONEq(t, `{"owner":"mia","source":"api","messages":2}`, string(detail))

	me := own.call("GET", "/auth/userinfo", access, "").want(200)["id"].(string)
	own.call("PATCH", users+"/"+me, s.admin, `{"status":"disabled"}`).want(200)
	for _, request := range [][2]string{
		{"POST", completions}, {"POST", responses}, {"GET", openAI + "/models"}, {"GET", responses + "/" + id}, {"GET", responses},
	} {
		before := len(own.details(s.admin, "auth.denied"))
		res := own.call(request[0], request[1], token, "{}")
		failure := res.want(403)["error"].(map[string]any)
		require.Equal(t, "account_disabled", failure["code"], res.text)
		recorded := own.details(s.admin, "auth.denied")
		require.Len(t, recorded, before+1, request)
		require.JSONEq(t, `{"method":"`+request[0]+`","needs":"active_account","role":"maintainer","route":"/openai/v1"}`, recorded[0])
	}
	require.EqualValues(t, 1, s.runs())
}

// foreignOfOpenAI sends requests with the ids of another organization to the interface of OpenAI.
func (o *org) foreignOfOpenAI(t *testing.T, other *org) {
	t.Helper()
	send := func(status int, method, path, body string) {
		t.Helper()
		for _, token := range []string{o.admin, o.member} {
			a := o.send(method, openAI+path, token, body)
			require.Equal(t, status, a.status, "%s %s %s: %s", method, path, body, a.text)
			other.private(path+body, a)
			require.NotContains(t, strings.ReplaceAll(a.text, other.response, ""), "text of "+other.name)
		}
	}
	one := "/responses/" + other.response
	send(404, "GET", one, "")
	send(404, "GET", one+"?stream=true", "")
	send(404, "DELETE", one, "")
	send(404, "POST", strings.Replace(one, "resp_", "resp_bg_", 1)+"/cancel", "")
	send(400, "POST", "/responses", `{"model":"same","input":"x","previous_response_id":"`+other.response+`"}`)
	send(400, "POST", "/responses/compact", `{"model":"same","input":"x","previous_response_id":"`+other.response+`"}`)
	send(400, "POST", "/responses", `{"model":"same","input":[{"type":"item_reference","id":"`+other.item+`"}]}`)
	decision := `{"type":"mcp_approval_response","approval_request_id":"` + other.request + `","approve":true}`
	send(400, "POST", "/responses", `{"model":"same","previous_response_id":"`+other.response+`","input":[`+decision+`]}`)
	send(200, "POST", "/responses", `{"model":"same","store":false,"input":[`+decision+`]}`) // a text of the user
	output := `{"type":"function_call_output","call_id":"` + other.request + `","output":"x"}`
	send(400, "POST", "/responses", `{"model":"same","input":[`+output+`]}`)
	send(200, "GET", "/models", "")
	send(404, "GET", "/models/only-"+other.name, "")
	send(404, "POST", "/responses", `{"model":"only-`+other.name+`","input":"x"}`)
	send(404, "POST", "/chat/completions", `{"model":"only-`+other.name+`","messages":[{"role":"user","content":"x"}]}`)
}

// fillOpenAI makes a response with an item, and one that waits for an approval.
func (o *org) fillOpenAI() {
	o.t.Helper()
	first := o.made("POST", responses, `{"model":"same","input":"text of `+o.name+`"}`)
	o.response, o.item = first["id"].(string), first["output"].([]any)[0].(map[string]any)["id"].(string)
	waiting := o.made("POST", responses, `{"model":"same","input":"/tool Write {\"file_path\":\"x\",\"content\":\"of `+o.name+`\"}"}`)
	for _, item := range waiting["output"].([]any) {
		if item.(map[string]any)["type"] == "mcp_approval_request" {
			o.request = item.(map[string]any)["id"].(string)
		}
	}
	require.NotEmpty(o.t, o.request, waiting)
	stream := o.send("POST", completions, o.member, `{"model":"same","stream":true,"messages":[{"role":"user","content":"text of `+o.name+`"}]}`)
	require.True(o.t, strings.HasSuffix(stream.text, "data: [DONE]\n\n"), stream.text)
}
