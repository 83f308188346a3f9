package chat_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const (
	completions   = "/openai/v1/chat/completions"
	responsesPath = "/openai/v1/responses"
)

// agents are those of the catalog that a caller may use.
func (s *server) agents(context.Context, api.Caller) (wire.Manifest, error) {
	m := wire.Manifest{Agents: []wire.ManifestAgent{{Name: "helper"}, {Name: "idle"}}}
	if s.disabled.Load() {
		m.Agents = m.Agents[1:]
	}
	return m, nil
}

// live are the agents that are deployed.
func (s *server) live(context.Context, string) ([]string, error) { return []string{"helper"}, nil }

// modelSaying is a model that says a text.
func modelSaying(text string) func(t *testing.T) *modeltest.Upstream {
	return func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic,
			modeltest.Repeat(modeltest.Stream(modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text(text))))
	}
}

func asked(texts ...string) object {
	var all []any
	for i, text := range texts {
		all = append(all, object{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	return object{"model": "helper", "messages": all}
}

func plus(o object, name string, value any) object {
	o[name] = value
	return o
}

// contentOf returns the text of a chat completion.
func contentOf(o object) string {
	return o["choices"].([]any)[0].(object)["message"].(object)["content"].(string)
}

// outputOf returns the texts of a response.
func outputOf(o object) string {
	var all []string
	for _, item := range o["output"].([]any) {
		if content, ok := item.(object)["content"].([]any); ok {
			all = append(all, content[0].(object)["text"].(string))
		}
	}
	return strings.Join(all, "\n\n")
}

// failsAs requires an error in the form of the protocol, and returns its code.
func failsAs(t *testing.T, res apitest.Response, status int) any {
	t.Helper()
	e := res.Want(status)["error"].(object)
	require.NotEmpty(t, e["message"])
	require.Len(t, e, 4)
	return e["code"]
}

func listed(c *apitest.Client) []apitest.Object { return c.Get(admin + "?source=api").Items() }

func TestChatCompletionsAreChats(t *testing.T) {
	each(t, modelSaying("Right."), func(t *testing.T, s *server) {
		ada := s.ada()
		models := ada.Get("/openai/v1/models").Want(http.StatusOK)["data"].([]any)
		require.Len(t, models, 1, "idle is not deployed")
		require.Equal(t, "helper", models[0].(object)["id"])

		body := ada.Post(completions, asked("one", "two", "three")).Want(http.StatusOK)
		require.Equal(t, "Right.", contentOf(body))
		require.Equal(t, float64(15), body["usage"].(object)["total_tokens"])
		chats := listed(ada)
		require.Len(t, chats, 1)
		require.Equal(t, "api", chats[0]["source"])
		require.Equal(t, "three", chats[0]["title"])
		var texts []string
		for _, m := range messages(ada, sessions+"/"+chats[0]["id"].(string)) {
			texts = append(texts, m["text"].(string))
		}
		require.Equal(t, []string{"one", "two", "three", "Right."}, texts)

		stream := receives(t, ada.Request(http.MethodPost, completions, plus(asked("hello"), "stream", true))).rest()
		require.Equal(t, "[DONE]", stream[len(stream)-1].raw)
		require.Contains(t, stream[1].raw, `"content":"Right."`)
		require.Len(t, listed(ada), 2)

		ada.Post(completions, plus(asked("secret"), "store", false)).Want(http.StatusOK)
		require.Len(t, listed(ada), 2)
		require.Zero(t, s.number("SELECT COUNT(*) FROM chat_messages WHERE text = 'secret'"), "deleted with the end")
		require.Equal(t, float64(3), s.counted("agent")[0]["runs"], "all of them count")
		require.Empty(t, listed(s.As("acme", "bob", rbac.Member)))
	})
}

func TestResponsesAreChats(t *testing.T) {
	each(t, modelSaying("Right."), func(t *testing.T, s *server) {
		ada := s.ada()
		first := ada.Post(responsesPath, object{"model": "helper", "input": "one"}).Want(http.StatusOK)
		require.Equal(t, "completed", first["status"])
		require.Equal(t, "Right.", outputOf(first))
		id := first["id"].(string)

		s.deploy(modelSaying("Again.")(t)) // a new revision, without the session
		follow := object{"model": "helper", "input": "two", "previous_response_id": id}
		second := ada.Post(responsesPath, follow).Want(http.StatusOK)
		require.Equal(t, "Again.", outputOf(second))
		require.Len(t, listed(ada), 1, "the session continues")
		branch := ada.Post(responsesPath, follow).Want(http.StatusOK)
		require.Equal(t, "Again.", outputOf(branch))
		require.Len(t, listed(ada), 2, "another continuation of the first response is a branch")

		for _, body := range []object{first, second, branch} {
			stored := ada.Get(responsesPath + "/" + body["id"].(string)).Want(http.StatusOK)
			require.Equal(t, outputOf(body), outputOf(stored))
			require.Equal(t, "completed", stored["status"])
			require.Equal(t, body["usage"], stored["usage"])
		}

		for _, other := range []*apitest.Client{s.As("acme", "bob", rbac.Admin), s.As("zeta", "ada", rbac.Admin)} {
			require.Equal(t, "response_not_found", failsAs(t, other.Get(responsesPath+"/"+id), http.StatusNotFound))
			failsAs(t, other.Get(responsesPath+"/"+id+"?stream=true"), http.StatusNotFound)
			failsAs(t, other.Delete(responsesPath+"/"+id), http.StatusNotFound)
			require.Equal(t, "previous_response_not_found", failsAs(t, other.Post(responsesPath, follow), http.StatusBadRequest))
		}

		unstored := ada.Post(responsesPath, object{"model": "helper", "input": "three", "store": false}).Want(http.StatusOK)
		require.Equal(t, "Again.", outputOf(unstored))
		failsAs(t, ada.Get(responsesPath+"/"+unstored["id"].(string)), http.StatusNotFound)
		require.Len(t, listed(ada), 2)
		ada.Delete(responsesPath + "/" + id).Want(http.StatusOK)
		failsAs(t, ada.Get(responsesPath+"/"+id), http.StatusNotFound)
		require.Len(t, listed(ada), 1)
	})
}

func TestOpenAIErrors(t *testing.T) {
	each(t, modelSaying("Right."), func(t *testing.T, s *server) {
		ada := s.ada()
		require.Equal(t, "invalid_api_key", failsAs(t, s.As("", "", "").Post(completions, asked("hello")), http.StatusUnauthorized))
		failsAs(t, ada.Get("/openai/v1/unknown"), http.StatusNotFound)
		require.Equal(t, "model_not_found", failsAs(t, ada.Post(completions, plus(asked("hello"), "model", "none")), http.StatusNotFound))
		require.Equal(t, "agent_not_deployed", failsAs(t, ada.Post(completions, plus(asked("hello"), "model", "idle")), http.StatusConflict))
		failsAs(t, ada.Post(completions, asked(strings.Repeat("x", 2<<20), "y", "z")), http.StatusRequestEntityTooLarge)
		require.Empty(t, listed(ada), "no session without its message")

		s.limit(usage.OfUser, "id-ada", wire.BudgetRequest{Hard: new(float64(20)), Reserve: new(float64(10))})
		ada.Post(completions, asked("hello")).Want(http.StatusOK)
		for _, path := range []string{completions, responsesPath} {
			res := ada.Post(path, plus(asked("hello"), "input", "hello"))
			require.Equal(t, "rate_limit_exceeded", failsAs(t, res, http.StatusTooManyRequests))
		}
		require.Len(t, listed(ada), 1)
		s.disabled.Store(true)
		for _, path := range []string{completions, responsesPath} {
			require.Equal(t, "model_not_found", failsAs(t, ada.Post(path, plus(asked("hello"), "input", "hello")), http.StatusNotFound))
		}
		require.Empty(t, ada.Get("/openai/v1/models").Want(http.StatusOK)["data"])
	})
}

func TestLabelsOfOpenAI(t *testing.T) {
	t.Parallel()
	const notice = "AI 生成"
	for mode, want := range map[aigc.Mode]string{
		aigc.ModeAppend: "Right.\n\n" + notice, aigc.ModePrepend: notice + "\n\nRight.", aigc.ModeHint: "Right.", aigc.ModeOff: "Right.",
	} {
		t.Run(string(mode), func(t *testing.T) {
			s := open(t, sqlite(t), func(cfg *config) { cfg.Labels = labels{mode, notice} })
			s.deploy(modelSaying("Right.")(t))
			ada := s.ada()
			labelled := func(body object) {
				require.Contains(t, body["metadata"].(object)["aigc"], `"ProduceID":"acme"`)
			}
			body := ada.Post(completions, asked("hello")).Want(http.StatusOK)
			require.Equal(t, want, contentOf(body))
			labelled(body)
			body = ada.Post(responsesPath, object{"model": "helper", "input": "hello", "metadata": object{"own": "value"}}).Want(http.StatusOK)
			require.Equal(t, want, outputOf(body))
			labelled(body)
			require.Equal(t, "value", body["metadata"].(object)["own"])
			body = ada.Get(responsesPath + "/" + body["id"].(string)).Want(http.StatusOK)
			require.Equal(t, want, outputOf(body))
			labelled(body)
			var text strings.Builder
			stream := receives(t, ada.Request(http.MethodPost, completions, plus(asked("hello"), "stream", true))).rest()
			for _, ev := range stream[:len(stream)-1] {
				content, _ := ev.data["choices"].([]any)[0].(object)["delta"].(object)["content"].(string)
				text.WriteString(content)
			}
			require.Equal(t, want, text.String())
			labelled(stream[len(stream)-2].data)
		})
	}
}

func TestAClientOfOpenAIThatLeaves(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url)
		s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(
			modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 5}), modeltest.Text("Half"), modeltest.Hang()))))
		ada := s.ada()
		for _, stored := range []bool{true, false} {
			st := receives(t, ada.Request(http.MethodPost, completions, plus(plus(asked("hello"), "stream", true), "store", stored)))
			st.next()
			st.next()
			st.cancel()
		}
		require.Eventually(t, func() bool { return len(s.counted("agent")) > 0 && s.counted("agent")[0]["runs"] == float64(2) }, patience, 20*time.Millisecond)
		require.Len(t, listed(ada), 1)
		require.Equal(t, "cancelled", eventually(t, ada, sessions+"/"+listed(ada)[0]["id"].(string))["status"])
		require.Zero(t, s.number("SELECT COUNT(*) FROM chat_sessions WHERE ephemeral"))
	}, series...)
}

// The session of a request with store: false whose hub was killed is deleted after the end of its
// lease, and counts.
func TestAnUnstoredSessionOfAKilledHub(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := open(t, url, func(c *config) { c.Relay.SaveEvery = 10 * time.Millisecond })
		s.deploy(nil)
		path := session(s.ada())
		s.exec(`UPDATE chat_sessions SET ephemeral = TRUE WHERE id = $1`, path[len(sessions)+1:])
		s.orphanWithText(path)
		require.Eventually(t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_sessions`) == 0 }, patience, 10*time.Millisecond)
		require.Equal(t, float64(1), s.counted("agent")[0]["runs"])
	}, series...)
}
