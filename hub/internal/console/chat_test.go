package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

// deployed creates an agent with the demo model and deploys it.
func (s *server) deployed(token, name string, changes map[string]any) {
	s.t.Helper()
	body := map[string]any{"name": name, "title": name, "providerId": "demo", "model": "demo"}
	for field, value := range changes {
		body[field] = value
	}
	s.call("POST", "/api/v1/admin/agents", token, body, http.StatusCreated)
	s.call("POST", "/api/v1/admin/agents/"+name+"/deploy", token, map[string]any{}, http.StatusAccepted)
	require.Eventually(s.t, func() bool {
		return s.call("GET", "/api/v1/admin/agents/"+name+"/deploy", token, nil, http.StatusOK)["state"] == "running"
	}, patience, 20*time.Millisecond)
}

const compose = ".compose textarea"

// say sends a message.
func (b *tab) say(text string) {
	b.t.Helper()
	b.fill(compose, text)
	b.click(".compose form button.primary")
}

// answered waits for the end of the answer. Until then the page asks before it is left.
func (b *tab) answered() {
	b.t.Helper()
	b.wait(`document.querySelector(".message.live") === null`)
}

// The first admin sets the hub up, tries the demo model, and gets an answer.
func TestFromSetupToAnAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := newTab(t)
	b.open(s.url + "/console/register#setup=" + setupToken)
	b.fill("input[name=password]", password)
	b.click("form button.primary")
	b.see("First steps")
	b.click(".steps button")
	b.see("Chat with Demo")
	b.see("Running")
	b.fits()
	b.say("Hello **you**, `x` and <b>no tag</b>")
	b.see("The answer is complete.")
	b.see("tokens in")
	require.True(t, eval[bool](b, `document.querySelectorAll(".message .md strong").length > 0`), "Markdown is rendered")
	require.True(t, eval[bool](b, `document.querySelectorAll(".message .md b").length === 0`), "HTML is text")
	b.fits()
	address := eval[string](b, "location.pathname")
	require.Regexp(t, `^/console/chat/demo/.+`, address)
	b.open(s.url + address)
	b.see("Hello")
	b.see("tokens in")
	b.say("/tool Read {\"file_path\":\"notes.md\"}")
	b.see("A file of the agent")
	b.answered()
	b.open(s.url + address)
	b.see("Read")
	b.click(".fold summary")
	b.see("Input")
	b.click(".talk header button")
	b.see("notes.md")
	b.fits()
	b.open(s.url + "/console")
	b.see("Chat with Demo")
	b.clean(s.url)
}

// An answer is stopped; the connection is lost in another, and the page shows what the hub stored.
func TestStoppedAndLostAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.delay = 150 * time.Millisecond
	token := s.setUp()
	s.deployed(token, "slow", nil)
	b := newTab(t)
	b.open(s.url + "/console")
	b.signIn("root", password)
	b.see("First steps")
	b.wait(`document.querySelectorAll(".steps li.done").length === 3`)
	b.open(s.url + "/console/chat/slow")
	b.see("Chat with slow")
	b.say(strings.Repeat("many words ", 15))
	b.see("it only echoes")
	require.NotContains(t, b.text(), "Waiting for the model", "words arrive")
	b.click(".compose form button")
	b.see("The answer was stopped.")
	b.see("Try again")
	b.say(strings.Repeat("other words ", 15))
	b.see("Stop")
	require.Eventually(t, func() bool { return eval[bool](b, `document.querySelector(".message.live .md") !== null`) }, patience, 20*time.Millisecond)
	require.Regexp(t, `/messages/[^/]+/cancel$`, eval[string](b, `performance.getEntriesByType("resource").findLast((e) => e.name.endsWith("/cancel")).name`))
	s.cut()
	b.see("The connection was lost.")
	s.down.Store(false)
	require.Eventually(t, func() bool { return !strings.Contains(b.text(), "The connection was lost.") }, patience, 20*time.Millisecond)
	b.answered()

	b.say(strings.Repeat("further words ", 15))
	require.Eventually(t, func() bool { return eval[bool](b, `document.querySelector(".message.live .md") !== null`) }, patience, 20*time.Millisecond)
	s.cut()
	b.see("The connection was lost.")
	eval[bool](b, `(() => { const now = Date.now; Date.now = () => now() + 3 * 60_000; return true; })()`)
	b.see("The hub does not respond.") // no further attempts
	s.down.Store(false)
	b.click(".compose .note button")
	b.answered()
	require.NotContains(t, b.text(), "The hub does not respond.")
	b.see("The answer is complete.")
	b.clean(s.url)
}

// A failed answer names its provider and who can repair it, also after a reload.
func TestRemedyOfAFailedAnswer(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"Incorrect API key","type":"invalid_request_error"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(upstream.Close)
	s := serve(t)
	var err error
	s.model, err = openai.New(openai.Config{BaseURL: upstream.URL + "/v1", APIKey: "sk-0123456789abcdef"})
	require.NoError(t, err)
	token := s.setUp()
	provider := s.call("POST", "/api/v1/admin/providers", token, map[string]any{
		"name": "Our <b>own</b>", "protocol": "openai", "baseUrl": upstream.URL + "/v1", "apiKey": "sk-0123456789abcdef",
	}, http.StatusCreated)
	s.deployed(token, "own", map[string]any{"providerId": provider["id"], "model": "m"})
	b := newTab(t)
	b.open(s.url + "/console")
	b.signIn("root", password)
	b.see("First steps")
	b.open(s.url + "/console/chat/own")
	b.see("Chat with own")
	b.say("Hello")
	b.see("The provider Our <b>own</b> rejected its key. A maintainer can replace it, in the console")
	b.answered()
	b.open(s.url + eval[string](b, "location.pathname"))
	b.see("did not accept the API key")
	b.see("The provider Our <b>own</b> rejected its key. A maintainer can replace it, in the console")
	require.Equal(t, 1, strings.Count(b.text(), "rejected its key"))
	b.clean(s.url)
}

// The output of an agent with a schema is formatted JSON in place of its text, while it arrives and
// after a reload.
func TestStructuredAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.deployed(s.setUp(), "sums", map[string]any{"outputSchema": map[string]any{"type": "object", "required": []any{"sum"}}})
	b := newTab(t)
	b.open(s.url + "/console/chat/sums")
	b.signIn("root", password)
	b.see("Chat with sums")
	b.say(`/tool StructuredOutput {"sum":3,"of":"<b>one</b>"}`)
	b.answered()
	const code = `[...document.querySelectorAll(".message:not(.mine) .md")].map((e) => e.querySelector("pre")?.textContent).join("|")`
	want := "{\n  \"sum\": 3,\n  \"of\": \"<b>one</b>\"\n}"
	require.Equal(t, want, strings.TrimSpace(eval[string](b, code)))
	b.fits()
	b.open(s.url + eval[string](b, "location.pathname"))
	b.see("tokens in")
	require.Equal(t, want, strings.TrimSpace(eval[string](b, code)))
	b.say("Hello")
	b.see("The response of the model does not match outputSchema")
	b.clean(s.url)
}

// shown is the text of the last answer of the page.
const shown = `[...document.querySelectorAll(".message:not(.mine)")].at(-1)?.querySelector(".md")?.textContent.trim().replace(/\s+/g, " ") || ""`

// An answer continues without its page, and each page of the chat has all of it once: one that is
// reloaded in the middle, another one, and one that was open before. Each of them stops it.
func TestAnAnswerInSeveralPages(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { inSeveralPages(t, serve(t)) })
	t.Run("postgres", func(t *testing.T) {
		inSeveralPages(t, serve(t, func(cfg *hub.Config) { cfg.DatabaseURL = pgtest.URL(t) }))
	})
}

func inSeveralPages(t *testing.T, s *server) {
	s.delay = 100 * time.Millisecond
	token := s.setUp()
	s.deployed(token, "slow", nil)
	b := newTab(t)
	b.open(s.url + "/console")
	b.signIn("root", password)
	b.see("First steps")
	b.open(s.url + "/console/chat/slow")
	b.see("Chat with slow")
	b.say(strings.Repeat("many words ", 30))
	b.see("it only echoes")
	address := eval[string](b, "location.href")
	b.open(address)
	b.wait(`document.querySelector(".message.live .md") !== null`)
	other := b.another()
	other.open(address)
	other.wait(`document.querySelector(".message:not(.mine) .md") !== null`)
	b.answered()
	other.answered()
	chat := strings.Replace(address[strings.Index(address, "/chat/slow/"):], "/chat/slow/", "/api/v1/agents/slow/chat/sessions/", 1)
	list := s.call("GET", chat+"/messages", token, nil, http.StatusOK)["items"].([]any)
	stored := list[1].(map[string]any)
	require.Equal(t, "completed", stored["status"])
	want := strings.Join(strings.Fields(stored["text"].(string)), " ")
	require.Equal(t, want, eval[string](b, shown))
	require.Equal(t, want, eval[string](other, shown))

	b.say(strings.Repeat("more words ", 30))
	other.wait(`document.querySelector(".message.live .md") !== null`) // it was open before
	other.click(".compose form button")
	b.see("The answer was stopped.")
	other.see("The answer was stopped.")
	b.wait(`document.querySelector(".compose form button.primary") !== null`)

	other.open(s.url + "/console/chat/slow") // a page that shows the chat reads it
	other.see("Chat with slow")
	b.say(strings.Repeat("other words ", 8))
	b.see("Stop")
	b.wait(`document.querySelector(".message.live .md") !== null`)
	b.click(".chat > aside > a.button")
	b.wait(`document.querySelector(".sessions .mark.answering") !== null`)
	b.wait(`document.querySelector(".sessions .mark.unread") !== null`)
	b.click(".sessions a")
	b.see("other words")
	b.wait(`document.querySelector(".sessions .mark") === null`)
	b.clean(s.url)
	other.clean(s.url)
}
