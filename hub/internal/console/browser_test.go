package console_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is the limit of each wait, for a busy machine.
const patience = 30 * time.Second

// chromium starts the browser of all tests of this package. The program without windows takes three
// fifths of the processor time.
var chromium = sync.OnceValues(func() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("lang", "en-US"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"))
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		options = append(options, chromedp.ExecPath(path))
	}
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	return ctx, chromedp.Do(ctx)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if ctx, err := chromium(); err == nil {
		_ = chromedp.Cancel(ctx)
	}
	os.Exit(code)
}

// tab is a page of a person, whose cookies no other tab has.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex         // guards the fields below
	requests map[[2]string]bool // the hosts of a document and of what it requested
	faults   []string           // exceptions, dialogs, and what a policy blocked
}

func newTab(t testing.TB) *tab {
	t.Helper()
	browser, err := chromium()
	require.NoError(t, err)
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, requests: map[[2]string]bool{}}
	require.NoError(t, chromedp.Listen(ctx, b.observe))
	b.screen(1280, 800, false)
	return b
}

func (b *tab) observe(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		from, fromErr := url.Parse(event.DocumentURL)
		to, err := url.Parse(event.Request.URL)
		if fromErr == nil && err == nil && to.Scheme != "data" {
			b.requests[[2]string{"http://" + from.Host, "http://" + to.Host}] = true
		}
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception: "+event.ExceptionDetails.Text)
	case *page.EventJavascriptDialogOpening:
		b.faults = append(b.faults, "dialog: "+event.Message)
	case *log.EventEntryAdded:
		// A response with 4xx is an entry too, and so is the focus of a field before that of autofocus.
		if event.Entry.Source != log.EntrySourceNetwork && event.Entry.Source != log.EntrySourceRendering {
			b.faults = append(b.faults, event.Entry.URL+" "+string(event.Entry.Source)+": "+event.Entry.Text)
		}
	}
}

// clean requires that the pages of the server had no fault, and sent requests only to it. Others
// are the servers of further pages.
func (b *tab) clean(server string, others ...string) {
	b.t.Helper()
	for _, fault := range b.found() {
		require.True(b.t, slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(fault, other) }), fault)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Contains(b.t, b.requests, [2]string{server, server})
	for request := range b.requests {
		if request[0] == server {
			require.Equal(b.t, server, request[1])
		}
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		require.NoError(b.t, err, "%q\n%s", b.found(), b.text()) // a dialog blocks the page
	}
}

// open loads a page, also if the address differs only in the fragment.
func (b *tab) open(address string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
}

// screen sets the size of the window. A phone has touch and its own scale.
func (b *tab) screen(width, height int64, phone bool) {
	b.t.Helper()
	if phone {
		b.do(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch))
		return
	}
	b.do(chromedp.EmulateViewport(width, height))
}

// fill types a text into a field, in place of what it has.
func (b *tab) fill(field, text string) {
	b.t.Helper()
	input := chromedp.CSS(field)
	b.do(chromedp.WaitVisible(input), chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).select()", field)),
		chromedp.SendKeys(input, text))
}

// click clicks an element, and again if a layout that moved or a render that replaced the element
// was faster than the mouse. A click on another element has no effect.
func (b *tab) click(element string) {
	b.t.Helper()
	prepared := fmt.Sprintf(`((e) => {
		window.clicked = false
		document.removeEventListener("click", window.judge, true)
		if (!e || e.disabled) return false
		window.judge = (event) => {
			document.removeEventListener("click", window.judge, true)
			window.clicked = e.contains(event.target)
			if (!window.clicked) { event.preventDefault(); event.stopImmediatePropagation() }
		}
		document.addEventListener("click", window.judge, true)
		return true
	})(document.querySelector(%q))`, element)
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	for {
		b.wait(prepared)
		_, err := chromedp.Run(ctx, chromedp.Click(chromedp.CSS(element)))
		if ctx.Err() != nil {
			require.NoError(b.t, err, "%s %q\n%s", element, b.found(), b.text())
		}
		if err != nil {
			continue
		}
		// A page that was left has no value, or is gone.
		if clicked, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("window.clicked !== false")); err != nil && ctx.Err() == nil || clicked {
			return
		}
	}
}

// see waits until the page displays a text.
func (b *tab) see(text string) {
	b.t.Helper()
	shown := ""
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-again.C {
		if shown = b.text(); strings.Contains(shown, text) {
			return
		}
	}
	require.Contains(b.t, shown, text)
}

// wait waits until an expression is true.
func (b *tab) wait(expression string) {
	b.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-again.C {
		if eval[bool](b, expression) {
			return
		}
	}
	require.Fail(b.t, expression, "%s\n%s", eval[string](b, "location.href"), b.text())
}

// text returns the displayed text, and none while a page is loaded.
func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`))
	if err != nil {
		return ""
	}
	return text
}

func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return value
}

// fits requires that the page is not wider than the screen, in any width from that of a small
// phone.
func (b *tab) fits() {
	b.t.Helper()
	for _, width := range []int64{320, 390, 1280} {
		b.screen(width, 844, width < 1000)
		require.LessOrEqual(b.t, eval[int64](b, "document.documentElement.scrollWidth"), width, "%s\n%s",
			eval[string](b, "location.href"), b.text())
		if width < 1000 {
			small := eval[[]string](b, `[...document.querySelectorAll("button, input:not([type=checkbox]), select")]
				.filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.classList.contains("hidden") && e.getBoundingClientRect().height < 36).map((e) => e.outerHTML)`)
			require.Empty(b.t, small, "a finger needs 36 px")
		}
	}
}

// found returns the faults so far.
func (b *tab) found() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.faults)
}
