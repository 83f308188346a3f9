package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// enter dispatches the event of Enter in a field, as browsers do it with an input method.
func (b *tab) enter(field, event string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("` + field + `").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ` + event + ` }))`))
	b.settled()
}

// Enter that ends an input method chooses characters: it sends no message, saves no form and adds
// no name. In Safari that event comes after the end of the composition, with the key code 229.
func TestEnterOfAnInputMethod(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.deployed(s.setUp(), "helper", nil)
	ends := map[string]string{"Safari": "keyCode: 229", "others": "keyCode: 229, isComposing: true", "without a code": "isComposing: true"}
	b := newTab(t)
	b.open(s.url + "/console/chat/helper")
	b.signIn("root", password)
	b.see("Chat with helper")
	b.fill(compose, "你好")
	for browser, end := range ends {
		b.enter(compose, end)
		require.Equal(t, "你好", eval[string](b, `document.querySelector("`+compose+`").value`), browser)
		require.Zero(t, eval[int](b, `document.querySelectorAll(".message").length`), browser)
	}
	b.enter(compose, "keyCode: 13")
	b.see("The answer is complete.")
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".message.mine").length`))
	b.visit("/agents/helper/configure")
	const name = ".names input"
	b.fill(name, "名")
	for browser, end := range ends {
		b.enter(name, end)
		require.Zero(t, eval[int](b, `document.querySelectorAll(".names li").length`), browser)
	}
	b.enter(name, "keyCode: 13")
	require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".names li").length`))
	for browser, end := range ends {
		b.enter(name, "ctrlKey: true, "+end)
		require.Equal(t, 1, eval[int](b, `document.querySelectorAll(".form.dirty").length`), browser)
	}
	b.enter(name, "ctrlKey: true, keyCode: 13")
	b.wait(`document.querySelector(".form.dirty") === null || document.querySelector(".form .error[role=alert]").textContent !== ""`)
	b.clean(s.url)
}
