package chat_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// A message that is sent again has the files of the first time, and needs neither them nor the
// upload.
func TestAMessageWithFilesIsSentOnce(t *testing.T) {
	each(t, right, func(t *testing.T, s *server) {
		runs := s.record(nil)
		ada := s.ada()
		path := session(ada)
		id := uploaded(ada, pdf)
		body := object{"clientMessageId": "1", "content": []object{{"type": "text", "text": "first"}, byID("file", id), inline("image", gif(40))}}
		was := s.endpoint.Load()
		s.serve(http.NotFoundHandler())
		ada.Post(path+"/messages", body).Error(http.StatusBadGateway, code.UpstreamFailed)
		s.endpoint.Store(was)
		again := object{"clientMessageId": "1", "content": []object{{"type": "text", "text": "first"}, byID("file", strings.Repeat("0", 64))}}
		require.Equal(t, "completed", last(send(t, ada, path, again).rest()))
		run := runs.sent(t)
		require.Empty(t, run.Message)
		require.Equal(t, []runtimewire.ContentPart{
			{Type: "text", Text: "first"}, {Type: "file", MediaType: "application/pdf", Data: pdf}, {Type: "image", MediaType: "image/gif", Data: gif(40)},
		}, run.Content)
		repeated := ada.Post(path+"/messages", body).Want(http.StatusOK)
		require.Len(t, repeated["userMessage"].(object)["content"], 3)
		require.Len(t, messages(ada, path), 2)
		require.Equal(t, 2, s.files())
	})
}

// A runtime that has lost the conversation receives the latest files again.
func TestFilesOfALostConversation(t *testing.T) {
	each(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		old := uploaded(ada, bytes.Repeat([]byte("o"), 10<<20))
		require.Equal(t, "completed", last(send(t, ada, path, object{"message": "old", "content": []object{{"type": "file", "name": "old.txt", "uploadId": old}}}).rest()))
		large := uploaded(ada, bytes.Repeat([]byte("x"), 10<<20))
		require.Equal(t, "completed", last(send(t, ada, path, object{"content": []object{inline("image", gif(50)), {"type": "text", "text": "new"}, byID("file", large)}}).rest()))
		s.deploy(right(t)) // without its state
		runs := s.record(nil)
		require.Equal(t, "completed", last(send(t, ada, path, object{"message": "more", "content": []object{byID("file", large)}}).rest()))
		run := runs.sent(t)
		require.Equal(t, "more", run.Message)
		require.Len(t, run.Content, 1)
		require.Len(t, run.Content[0].Data, 10<<20)
		require.Len(t, run.History, 4)
		require.Equal(t, "old", run.History[0].Content)
		require.Equal(t, []runtimewire.ContentPart{{Type: "text", Text: "[The file old.txt was left out.]"}}, run.History[0].Parts, "30 MiB are sent")
		require.Empty(t, run.History[2].Content)
		require.Equal(t, []runtimewire.ContentPart{{Type: "image", MediaType: "image/gif", Data: gif(50)}, {Type: "text", Text: "new"}}, run.History[2].Parts[:2])
		require.Len(t, run.History[2].Parts[2].Data, 10<<20)
	})
}

// The files of a message without an answer are sent with the next one.
func TestFilesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	ada := s.ada()
	path := session(ada)
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {})) // it accepts the run and says nothing
	send(t, ada, path, object{"message": "first", "content": []object{inline("image", gif(50))}}).rest()
	s.deploy(right(t))
	runs := s.record(nil)
	require.Equal(t, "completed", last(send(t, ada, path, object{"message": "second", "content": []object{inline("file", pdf)}}).rest()))
	run := runs.sent(t)
	require.Equal(t, "first", run.Message)
	require.Equal(t, []runtimewire.ContentPart{
		{Type: "image", MediaType: "image/gif", Data: gif(50)}, {Type: "text", Text: "second"}, {Type: "file", MediaType: "application/pdf", Data: pdf},
	}, run.Content)
}

// A message without an answer and the next one have too many parts for one message: the files of
// the first are left out.
func TestManyPartsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	ada := s.ada()
	path := session(ada)
	parts := []object{inline("image", gif(50))}
	for range 63 {
		parts = append(parts, object{"type": "text", "text": "first"})
	}
	s.serve(hostile(func(write func(string) bool, _ <-chan struct{}) {})) // it accepts the run and says nothing
	send(t, ada, path, object{"content": parts}).rest()
	s.deploy(right(t))
	runs := s.record(nil)
	require.Equal(t, "completed", last(send(t, ada, path, object{"message": "second", "content": []object{inline("file", pdf)}}).rest()))
	run := runs.sent(t)
	require.Regexp(t, `^\[The image was left out.\](\n\nfirst){63}\n\nsecond$`, run.Message)
	require.Equal(t, []runtimewire.ContentPart{{Type: "file", MediaType: "application/pdf", Data: pdf}}, run.Content)
}

// Files that a runtime reads slowly take no memory of answers, and others of the organization wait
// for theirs.
func TestMemoryOfFiles(t *testing.T) {
	s := open(t, sqlite(t))
	begun, read, grown := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := strings.Repeat("x", 3<<20)
		if r.ContentLength > 1<<20 {
			begun <- struct{}{}
			select {
			case <-read:
			case <-t.Context().Done(): // the test has failed
			}
			text = ""
		}
		hostile(func(write func(string) bool, _ <-chan struct{}) {
			if text != "" {
				write(fmt.Sprintf(partial, text))
				select {
				case <-grown:
				case <-t.Context().Done():
				}
			}
			write("event: result\ndata: {\"subtype\":\"success\"}\n\nevent: done\ndata: {}\n\n")
		})(w, r)
	}))
	var all sync.WaitGroup
	post := func(c *apitest.Client, parts int) {
		content := make([]object, parts)
		for i := range content {
			content[i] = byID("file", uploaded(c, bytes.Repeat([]byte("x"), 10<<20)))
		}
		path := session(c)
		all.Go(func() {
			if res := c.Post(path+"/messages", object{"background": true, "content": content}); res.Status != http.StatusAccepted {
				t.Error(res.Status, res.Text)
			}
		})
	}
	post(s.ada(), 3)
	<-begun
	bob := s.As("acme", "bob", rbac.Member)
	var answers []*stream
	for range 4 {
		answers = append(answers, send(t, bob, session(bob), object{"message": "hello"}))
	}
	for _, answer := range answers {
		answer.until("partial_message")
	}
	close(grown)
	for _, answer := range answers {
		require.Equal(t, "completed", last(answer.rest()))
	}
	before := s.number(`SELECT COUNT(*) FROM chat_messages`)
	post(s.As("acme", "eve", rbac.Member), 1)
	require.Eventually(t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_messages`) > before }, patience, 5*time.Millisecond)
	for range 50 { // in which it finds no memory
		bob.Get(sessions).Want(http.StatusOK)
	}
	require.Empty(t, begun)
	close(read)
	all.Wait()
}

// A model that takes no images ends the answer with an error that names the part.
func TestAModelWithoutImages(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Raw(http.StatusBadRequest, "application/json",
			`{"type":"error","error":{"type":"invalid_request_error","message":"This model takes no image input."}}`)))
	}
	with(t, up, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		events := send(t, ada, path, object{"content": []object{{"type": "text", "text": "Look"}, {"type": "image", "name": "a.gif", "data": gif(30)}}}).rest()
		require.Equal(t, "failed", last(events))
		require.Contains(t, messages(ada, path)[1]["error"].(object)["message"], "content[1] a.gif")
	})
}

// A pushed session that is pushed again loses the files of messages that were sent to it in the
// hub.
func TestFilesOfAPushedSession(t *testing.T) {
	with(t, right, func(t *testing.T, s *server) {
		ada := s.ada()
		require.Equal(t, []string{"created"}, statuses(ada.Post(push, body(pushed("s1", day1)))))
		require.Equal(t, "completed", last(send(t, ada, sessions+"/s1", object{"content": []object{inline("image", gif(30))}}).rest()))
		require.Equal(t, 1, s.files())
		require.Equal(t, []string{"updated"}, statuses(ada.Post(push, body(pushed("s1", "2999-01-01T00:00:00Z")))))
		require.Zero(t, s.files())
	})
}

// The protocol of OpenAI has images and files as data URLs, also in its history.
func TestFilesOfTheOpenAIProtocol(t *testing.T) {
	each(t, right, func(t *testing.T, s *server) {
		runs := s.record(nil)
		ada := s.ada()
		image := object{"type": "image_url", "image_url": object{"url": "data:image/gif;base64," + base64.StdEncoding.EncodeToString(gif(0))}}
		file := object{"type": "file", "file": object{"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}}
		text := func(s string) object { return object{"type": "text", "text": s} }
		ada.Post(completions, object{"model": "helper", "messages": []object{
			{"role": "user", "content": []object{text("What is this?"), image}}, {"role": "assistant", "content": "An image."},
			{"role": "user", "content": []object{text("And this?"), file}},
		}}).Want(http.StatusOK)
		run := runs.sent(t)
		require.Equal(t, "And this?", run.Message)
		require.Equal(t, []runtimewire.ContentPart{{Type: "file", Name: "a.pdf", MediaType: "application/pdf", Data: []byte("%PDF-1.7")}}, run.Content)
		require.Equal(t, []runtimewire.ContentPart{{Type: "image", MediaType: "image/gif", Data: gif(0)}}, run.History[0].Parts)
		chat := sessions + "/" + listed(ada)[0]["id"].(string)
		all := messages(ada, chat)
		require.Equal(t, "image", all[0]["content"].([]any)[1].(object)["type"])
		id := all[2]["content"].([]any)[1].(object)["uploadId"].(string)
		require.Equal(t, "%PDF-1.7", ada.Get(chat+"/uploads/"+id).Text)

		// The next request continues the chat, with the files that the client carries if the runtime lost
		// it.
		stored := s.files()
		talk := []object{
			{"role": "user", "content": []object{text("What is this?"), image}}, {"role": "assistant", "content": "An image."},
			{"role": "user", "content": []object{text("And this?"), file}}, {"role": "assistant", "content": "Right."},
		}
		ada.Post(completions, object{"model": "helper", "messages": append(talk, object{"role": "user", "content": "Sure?"})}).Want(http.StatusOK)
		require.Len(t, listed(ada), 1)
		require.Empty(t, runs.sent(t).History)
		s.deploy(right(t))
		runs = s.record(nil)
		talk = append(talk, object{"role": "user", "content": "Sure?"}, object{"role": "assistant", "content": "Right."})
		ada.Post(completions, object{"model": "helper", "messages": append(talk, object{"role": "user", "content": []object{text("Again"), image}})}).Want(http.StatusOK)
		require.Len(t, listed(ada), 1)
		run = runs.sent(t)
		require.Len(t, run.History, 6)
		require.Equal(t, gif(0), run.History[0].Parts[0].Data)
		require.Equal(t, gif(0), run.Content[0].Data)
		require.Equal(t, stored, s.files(), "that of the chat")

		first := ada.Post(responsesPath, object{"model": "helper", "input": []object{{"role": "user", "content": []object{
			{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": "data:image/gif;base64," + base64.StdEncoding.EncodeToString(gif(0))},
		}}}}).Want(http.StatusOK)
		require.Equal(t, gif(0), runs.sent(t).Content[0].Data)
		s.deploy(right(t))
		runs = s.record(nil)
		ada.Post(responsesPath, object{"model": "helper", "input": "Again?", "previous_response_id": first["id"]}).Want(http.StatusOK)
		require.Equal(t, gif(0), runs.sent(t).History[0].Parts[0].Data)

		// A branch has a new chat with the texts of the former one.
		ada.Post(responsesPath, object{"model": "helper", "input": "And now?", "previous_response_id": first["id"]}).Want(http.StatusOK)
		require.Contains(t, runs.sent(t).History[0].Content, "Look.\n\n(image")

		before := s.files()
		ada.Post(completions, object{"model": "helper", "store": false, "messages": []object{{"role": "user", "content": []object{image}}}}).Want(http.StatusOK)
		require.Equal(t, before, s.files(), "deleted with the end")
		failsAs(t, ada.Post(completions, object{"model": "helper", "messages": []object{{"role": "user", "content": []object{
			text("x"), {"type": "image_url", "image_url": object{"url": "data:image/png;base64,R0lGODlh"}},
		}}}}), http.StatusBadRequest)
		failsAs(t, ada.Post(completions, object{"model": "helper", "messages": []object{{"role": "user", "content": []object{
			{"type": "image_url", "image_url": object{"url": "http://127.0.0.1/a.png"}},
		}}}}), http.StatusBadRequest)
	})
}

// The memory of a message is released when its answer begins, so that a user has several large ones
// in progress.
func TestLargeMessagesAtOnce(t *testing.T) {
	with(t, endless, func(t *testing.T, s *server) {
		ada := s.ada()
		for range 2 {
			body := object{"content": []object{inline("file", bytes.Repeat([]byte("x"), 10<<20))}}
			send(t, ada, session(ada), body).until("partial_message")
		}
	})
}

// A client that carries a conversation with files continues its chat, without a copy of the files.
// If the runtime is still busy with the chat, the conversation is another one, with all files.
func TestCarriedFiles(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	s.deploy(modelSaying("Right.")(t))
	runs := s.record(nil)
	ada := s.ada()
	image := func(size int) object {
		return object{"type": "image_url", "image_url": object{"url": "data:image/gif;base64," + base64.StdEncoding.EncodeToString(gif(size))}}
	}
	turn := func(size int) object { return object{"role": "user", "content": []object{image(size)}} }
	right := object{"role": "assistant", "content": "Right."}
	ada.Post(completions, object{"model": "helper", "messages": []object{turn(40)}}).Want(http.StatusOK)
	ada.Post(completions, object{"model": "helper", "messages": []object{turn(40), right, turn(50)}}).Want(http.StatusOK)
	require.Len(t, listed(ada), 1)
	require.Empty(t, runs.sent(t).History)
	require.Equal(t, 2, s.files())

	target, err := url.Parse(s.endpoint.Load().URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bytes.Contains(body, []byte(`"requireSession":true`)) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"error":"Session busy"}`)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	}))
	ada.Post(completions, object{"model": "helper", "messages": []object{turn(40), right, turn(50), right, turn(60)}}).Want(http.StatusOK)
	run := runs.sent(t)
	require.Equal(t, gif(60), run.Content[0].Data)
	require.Len(t, run.History, 4)
	require.Equal(t, gif(50), run.History[2].Parts[0].Data)
	require.Len(t, listed(ada), 2)
}
