package chat_test

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// textsOf returns the texts of each chat, the latest change first.
func textsOf(c *apitest.Client) (all []string) {
	for _, chat := range listed(c) {
		var texts []string
		for _, m := range messages(c, sessions+"/"+chat["id"].(string)) {
			texts = append(texts, m["text"].(string))
		}
		all = append(all, strings.Join(texts, "|"))
	}
	return all
}

// complete returns the content of a completion of a conversation.
func complete(c *apitest.Client, texts ...string) string {
	return contentOf(c.Post(completions, asked(texts...)).Want(http.StatusOK))
}

// A client that carries its conversation continues the chat that has exactly this conversation. A
// branch is another chat, and of two chats with the same conversation, the last one continues.
func TestCarriedConversationsContinueTheirChats(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		up := modelSaying("Right.")(t)
		s.deploy(up)
		ada := s.ada()
		complete(ada, "one")
		complete(ada, "one", "Right.", "two")
		require.Equal(t, []string{"one|Right.|two|Right."}, textsOf(ada))
		sent := string(up.Requests()[1].Body)
		for _, text := range []string{"one", "Right.", "two"} {
			require.Equal(t, 1, strings.Count(sent, `"`+text+`"`), sent)
		}

		complete(ada, "one", "Right.", "again") // a branch
		require.Equal(t, []string{"one|Right.|again|Right.", "one|Right.|two|Right."}, textsOf(ada))
		complete(ada, "one", "Right.", "two") // a regenerated answer
		require.Len(t, textsOf(ada), 3)
		stream := receives(t, ada.Request(http.MethodPost, completions, plus(asked("one", "Right.\n", "two", "Right.", "three"), "stream", true))).rest()
		require.Equal(t, "[DONE]", stream[len(stream)-1].raw)
		require.Equal(t, []string{"one|Right.|two|Right.|three|Right.", "one|Right.|again|Right.", "one|Right.|two|Right."}, textsOf(ada), "the last one continues")
		complete(ada, "one", "Right.", "two", "Right.", "three")
		require.Equal(t, []string{"one|Right.|two|Right.|three|Right.", "one|Right.|two|Right.|three|Right.", "one|Right.|again|Right."}, textsOf(ada), "then the other one")

		for _, texts := range [][]string{
			{"one", "Wrong.", "two"}, {"One", "Right.", "two", "Right.", "three"}, {"one", "Right.\n\nRight.", "two"}, {"one\n\nRight.", "Right.", "two"},
		} {
			before := len(textsOf(ada))
			complete(ada, texts...)
			require.Len(t, textsOf(ada), before+1, "%q", texts)
		}
		before := textsOf(ada)
		for _, other := range []*apitest.Client{s.As("acme", "bob", rbac.Member), s.As("zeta", "ada", rbac.Member)} {
			complete(other, "one", "Right.", "two", "Right.", "three", "Right.", "four")
			require.Equal(t, []string{"one|Right.|two|Right.|three|Right.|four|Right."}, textsOf(other))
		}
		require.Equal(t, before, textsOf(ada))
		for _, c := range []*apitest.Client{ada, s.As("acme", "bob", rbac.Member), s.As("zeta", "ada", rbac.Member)} {
			complete(c, "hello")
		}
		complete(ada, "hello", "Right.", "more")
		require.Len(t, textsOf(ada), len(before)+1, "the last one is that of another user")
		before = textsOf(ada)
		s.exec(`UPDATE chat_sessions SET agent_name = 'idle'`)
		complete(ada, "one", "Right.", "again", "Right.", "more")
		require.Len(t, listed(ada), len(before)+1, "chats of other agents")
	})
}

// also returns a body with the members of another one.
func also(body, members object) object {
	body = maps.Clone(body)
	maps.Copy(body, members)
	return body
}

// One token may serve many people: a chat continues only for the one whom the client names.
func TestUsersOfACarriedConversation(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
			if body := string(r.Body); strings.Contains(body, `"open it"`) && !strings.Contains(body, "page seven") {
				return modeltest.Stream(modeltest.ToolCall("t1", "open", `{}`))
			}
			return modeltest.Stream(modeltest.Text("Right."))
		}))))
		ada := s.ada()
		ask := func(chats int, user object, texts ...string) {
			t.Helper()
			ada.Post(completions, also(asked(texts...), user)).Want(http.StatusOK)
			require.Len(t, listed(ada), chats, "%v", user)
		}
		bob := object{"user": "bob"}
		ask(1, bob, "one")
		for i, other := range []object{
			{"user": "eve"}, {}, {"safety_identifier": "bob"}, {"user": "bob", "safety_identifier": "bob"}, {"user": object{"id": "bob"}},
		} {
			ask(2+i, other, "one", "Right.", "two")
		}
		ask(6, bob, "one", "Right.", "two")
		ask(6, object{"user": "eve", "safety_identifier": nil}, "one", "Right.", "two", "Right.", "three")
		require.Contains(t, textsOf(ada), "one|Right.|two|Right.|three|Right.")
		ask(6, object{"user": object{"id": "bob"}}, "one", "Right.", "two", "Right.", "three")

		// The results of tools continue the conversation of their user too.
		tools := object{"user": "bob", "tools": []any{object{"type": "function", "function": object{"name": "open"}}}}
		talk := asked("open it")
		call := ada.Post(completions, also(talk, tools)).Want(http.StatusOK)["choices"].([]any)[0].(object)["message"].(object)
		id := call["tool_calls"].([]any)[0].(object)["id"]
		all := []any{object{"role": "user", "content": "open it"}, call, object{"role": "tool", "tool_call_id": id, "content": "page seven"}}
		talk["messages"] = all
		ada.Post(completions, also(talk, tools)).Want(http.StatusOK)
		talk["messages"] = append(all, object{"role": "assistant", "content": "Right."}, object{"role": "user", "content": "more"})
		ada.Post(completions, also(talk, tools)).Want(http.StatusOK)
		require.Len(t, listed(ada), 7)
		require.Contains(t, textsOf(ada)[0], "|more|Right.")
	})
}

// Requests of one conversation at the same time: one continues the chat, and the others branch.
func TestBranchesOfACarriedConversation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		a, b := open(t, url), open(t, url)
		a.deploy(modelSaying("Right.")(t))
		b.endpoint.Store(a.endpoint.Load())
		complete(a.ada(), "one")
		var wg sync.WaitGroup
		for i := range 8 {
			c := []*server{a, b}[i%2].ada()
			wg.Go(func() {
				if text := c.Post(completions, asked("one", "Right.", "two")).Text; !strings.Contains(text, `"content":"Right."`) {
					t.Error(text)
				}
			})
		}
		wg.Wait()
		all := textsOf(a.ada())
		require.Len(t, all, 8)
		for _, texts := range all {
			require.Equal(t, "one|Right.|two|Right.", texts)
		}
	}, series...)
}

// What the client does not have ends the conversation of a chat: a message of another program, an
// answer that failed, and one that is not stored. A runtime that has lost the session gets the
// conversation of the request.
func TestEndsOfCarriedConversations(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Choose(func(r *modeltest.Request) modeltest.Reply {
			switch body := string(r.Body); {
			case strings.Contains(body, `"fail"`):
				return modeltest.Status(http.StatusInternalServerError)
			case strings.Contains(body, `"hang"`) && !strings.Contains(body, `"next"`):
				return modeltest.Stream(modeltest.Text("Half"), modeltest.Hang())
			}
			return modeltest.Stream(modeltest.Text("Right."))
		})))
		s.deploy(up)
		ada := s.ada()
		complete(ada, "one")
		say(t, ada, sessions+"/"+listed(ada)[0]["id"].(string), "of the console")
		complete(ada, "one", "Right.", "two")
		require.Equal(t, []string{"one|Right.|two|Right.", "one|Right.|of the console|Right."}, textsOf(ada))
		complete(ada, "one", "Right.", "of the console", "Right.", "three")
		require.Len(t, textsOf(ada), 3, "the client has not sent it")

		s.deploy(up)
		complete(ada, "one", "Right.", "of the console", "Right.", "three", "Right.", "four")
		require.Equal(t, "one|Right.|of the console|Right.|three|Right.|four|Right.", textsOf(ada)[0])
		require.Len(t, textsOf(ada), 3)
		sent := string(up.Requests()[len(up.Requests())-1].Body)
		for _, text := range []string{"one", "of the console", "three", "four"} {
			require.Equal(t, 1, strings.Count(sent, `"`+text+`"`), sent)
		}

		failsAs(t, ada.Post(completions, asked("one", "Right.", "two", "Right.", "fail")), http.StatusBadGateway)
		require.Equal(t, "one|Right.|two|Right.|fail|", textsOf(ada)[0])
		complete(ada, "one", "Right.", "two", "Right.", "after the failure")
		require.Len(t, textsOf(ada), 4)

		ada.Post(completions, plus(asked("one", "Right.", "two", "Right.", "after the failure", "Right.", "secret"), "store", false)).Want(http.StatusOK)
		require.NotContains(t, strings.Join(textsOf(ada), ""), "secret")
		complete(ada, "one", "Right.", "two", "Right.", "after the failure", "Right.", "stored")
		require.Len(t, textsOf(ada), 4, "what is not stored changes no chat")

		complete(ada, "lost")
		busy := send(t, ada, sessions+"/"+listed(ada)[0]["id"].(string), object{"message": "hang"})
		busy.until("partial_message")
		s.exec(`DELETE FROM chat_runs`) // as after the hub was killed
		complete(ada, "lost", "Right.", "found")
		require.Equal(t, "lost|Right.|found|Right.", textsOf(ada)[0])
		busy.cancel()

		left := receives(t, ada.Request(http.MethodPost, completions, plus(asked("hang"), "stream", true)))
		left.next()
		left.next()
		left.cancel()
		eventually(t, ada, sessions+"/"+listed(ada)[0]["id"].(string))
		chats := len(listed(ada))
		complete(ada, "hang", "Half", "next")
		require.Len(t, listed(ada), chats+1, "the answer is not complete")

		s.service.Reject()
		failsAs(t, ada.Post(completions, asked("one", "Right.", "two", "Right.", "after the failure", "Right.", "stored", "Right.", "last")), http.StatusServiceUnavailable)
	})
}

// A message whose answer is cancelled before its run has begun is not sent again in another chat.
func TestCancelOfACarriedConversation(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		complete(ada, "one")
		chat := sessions + "/" + listed(ada)[0]["id"].(string)
		cancelled := make(chan struct{})
		s.record(func(object) {
			defer close(cancelled)
			ada.Post(chat+"/messages/"+messages(ada, chat)[3]["id"].(string)+"/cancel", nil)
		})
		failsAs(t, ada.Post(completions, asked("one", "Right.", "two")), http.StatusConflict)
		<-cancelled
		require.Equal(t, []string{"one|Right.|two|"}, textsOf(ada))
	})
}

// The client sends the notice of an answer with its text.
func TestLabelsOfCarriedConversations(t *testing.T) {
	t.Parallel()
	for _, mode := range []aigc.Mode{aigc.ModeAppend, aigc.ModePrepend, aigc.ModeHint, aigc.ModeOff} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t), func(cfg *config) { cfg.Labels = labels{mode, "AI 生成"} })
			up := modelSaying("Right.")(t)
			s.deploy(up)
			ada := s.ada()
			first := complete(ada, "one")
			second := complete(ada, "one", first, "two")
			third := complete(ada, "one", first, "two", second, "three")
			require.Len(t, listed(ada), 1)

			// The model does not receive the notice as what it has said.
			receives := func(answers int) {
				t.Helper()
				sent := string(up.Requests()[len(up.Requests())-1].Body)
				require.Equal(t, answers, strings.Count(sent, `"Right."`), sent)
				require.NotContains(t, sent, "AI 生成")
			}
			complete(ada, "one", first, "a branch")
			receives(1)
			up = modelSaying("Right.")(t)
			s.deploy(up) // the new runtime does not have the session
			complete(ada, "one", first, "two", second, "three", third, "four")
			require.Len(t, listed(ada), 2)
			receives(3)
		})
	}
}

// Calls of client tools are a part of the conversation. What the client has changed before their
// results is another one.
func TestToolsOfCarriedConversations(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		body := func(all ...any) object {
			return object{"model": "helper", "messages": all, "tools": []any{object{"type": "function", "function": object{"name": "open"}}}}
		}
		user := func(text string) any { return object{"role": "user", "content": text} }
		for chats, change := range []string{"go", "gone"} {
			s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hello.")),
				modeltest.Stream(modeltest.Text("I open."), modeltest.ToolCall("t1", "open", `{"page":1}`)),
				modeltest.Stream(modeltest.ToolCall("t2", "open", `{"page":2}`)), modeltest.Stream(modeltest.Text("Done.")),
				modeltest.Stream(modeltest.Text("Bye."))))
			talk := []any{user("hi")}
			next := func(with ...any) {
				res := ada.Post(completions, body(append(talk, with...)...)).Want(http.StatusOK)
				talk = append(append(talk, with...), res["choices"].([]any)[0].(object)["message"])
			}
			next()
			next(user("go"))
			talk[len(talk)-2] = user(change)
			for range 2 {
				id := talk[len(talk)-1].(object)["tool_calls"].([]any)[0].(object)["id"]
				next(object{"role": "tool", "tool_call_id": id, "content": "a page"})
			}
			require.Equal(t, "Done.", talk[len(talk)-1].(object)["content"])
			next(user("bye"))
			require.Len(t, listed(ada), 1+2*chats, "%q", textsOf(ada))
		}
	})
}
