package console_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// dot is a PNG of one pixel, in base64.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// give pastes or drops a file, whose bytes are an expression of JavaScript.
func (b *tab) give(event, name, media, bytes string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => {
		const data = new DataTransfer()
		data.items.add(new File([%s], %q, { type: %q }))
		const options = { bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data }
		document.querySelector(%q).dispatchEvent(%q === "paste" ? new ClipboardEvent("paste", options) : new DragEvent("drop", options))
		return true
	})()`, bytes, name, media, compose, event))
}

const dotBytes = `Uint8Array.from(atob("` + dot + `"), (c) => c.charCodeAt(0))`

// attached waits until that many files are sent.
func (b *tab) attached(n int) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.querySelectorAll(".attached li").length === %d && !document.querySelector(".attached [role=status]")`, n))
}

// pictures waits until that many images of messages are shown.
func (b *tab) pictures(n int) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`[...document.querySelectorAll(".message.mine .attachment img")].filter((e) => e.naturalWidth > 0).length === %d`, n))
}

// Images and files are pasted, dropped and chosen, removed with the keyboard, checked before they
// are sent, and shown with the message, also after a reload.
func TestAttachments(t *testing.T) {
	t.Parallel()
	s := serve(t)
	token := s.setUp()
	s.deployed(token, "helper", nil)
	b := newTab(t)
	b.open(s.url + "/console")
	b.signIn("root", password)
	b.see("First steps")
	b.open(s.url + "/console/chat/helper")
	b.see("Chat with helper")

	b.give("paste", "dot.png", "image/png", dotBytes)
	b.attached(1)
	b.wait(`document.querySelector(".attached img")?.naturalWidth > 0`)
	b.give("drop", "<b>notes</b>.txt", "text/plain", `"some text"`)
	b.attached(2)
	b.see("<b>notes</b>.txt")
	file := filepath.Join(t.TempDir(), "chosen.md")
	require.NoError(t, os.WriteFile(file, []byte("# chosen"), 0o600))
	b.do(chromedp.SetUploadFiles(chromedp.CSS("input[type=file]"), []string{file}))
	b.attached(3)
	b.accessible("attachments")
	b.fits()

	const disabled = `document.querySelector(".compose form button.primary").disabled`
	require.False(t, eval[bool](b, disabled))
	b.give("drop", "large.txt", "text/plain", `"x".repeat(10 * 2 ** 20 + 1)`)
	b.see("It may have at most")
	b.give("drop", "large.png", "image/png", `"x".repeat(5 * 2 ** 20 + 1)`)
	b.give("drop", "zip.zip", "application/zip", `new Uint8Array([80, 75, 3, 4, 0])`)
	b.see("neither a PNG")
	require.True(t, eval[bool](b, disabled), "what is wrong is removed first")
	b.accessible("attachments with errors")
	for range 3 {
		eval[bool](b, `(() => { document.querySelector(".attached li.bad button").focus(); return true })()`)
		b.press(kb.Enter)
		b.wait(`document.activeElement === document.querySelector("` + compose + `")`)
	}
	b.attached(3)
	for range 6 {
		b.give("paste", "dot.png", "image/png", dotBytes)
	}
	b.see("A message may have 8 images and files.")
	require.EqualValues(t, 1, eval[float64](b, `document.querySelectorAll(".attached li.bad").length`))
	for range 6 {
		eval[bool](b, `(() => { [...document.querySelectorAll(".attached li button")].at(-1).click(); return true })()`)
	}
	b.attached(3)

	b.say("Look at this")
	b.see("The answer is complete.")
	b.pictures(1)
	b.see("chosen.md")
	require.Zero(t, eval[float64](b, `document.querySelectorAll(".attached li, .message.mine b").length`))
	address := eval[string](b, "location.pathname")
	b.open(s.url + address)
	b.pictures(1)
	b.see("Look at this")
	b.see("<b>notes</b>.txt")
	b.accessible("a message with attachments")
	b.fits()

	b.give("drop", "only.png", "image/png", dotBytes)
	b.attached(1)
	b.click(".compose form button.primary")
	b.pictures(2)
	b.answered()
	id := address[strings.LastIndex(address, "/")+1:]
	all := s.call("GET", "/api/v1/admin/chat/sessions/"+id+"/messages", token, nil, http.StatusOK)["items"].([]any)
	require.Len(t, all, 4)
	b.open(s.url + "/console/chats/" + id)
	b.pictures(2)
	b.accessible("attachments of any chat")

	// Text that is pasted with an image is text.
	b.open(s.url + address)
	b.pictures(2)
	eval[bool](b, `(() => {
		const data = new DataTransfer()
		data.setData("text/plain", "text")
		data.items.add(new File(["x"], "x.png", { type: "image/png" }))
		document.querySelector("`+compose+`").dispatchEvent(new ClipboardEvent("paste", { bubbles: true, cancelable: true, clipboardData: data }))
		return true
	})()`)
	require.Zero(t, eval[float64](b, `document.querySelectorAll(".attached li").length`))
	b.clean(s.url)
}
