package console_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Every page writes a time as a relative one, with the exact one and its zone as the title. A
// transcript has the times of the day, in the zone of the reader too.
func TestTimesHaveOneForm(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	mia, chat := s.furnish(root, "Reports")
	ofMia := s.call("GET", "/api/v1/admin/chat/sessions?user="+mia, root, nil, http.StatusOK)["items"].([]any)[0].(map[string]any)["id"].(string)
	s.call("PUT", "/api/v1/admin/aigc/config", root, map[string]any{"enabled": true, "companyName": "Example", "uscc": "91350100M000100Y43", "contentProducer": "001191350100M000100Y4310001",
		"label": "1", "explicit": map[string]any{"mode": "append", "text": "内容由 AI 生成"}, "signing": map[string]any{"enabled": true}}, http.StatusOK)
	b := newTab(t)
	b.do(func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
		return none, err
	})
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	const (
		exact    = `^[A-Z][a-z]{2} \d{1,2}, \d{4}, \d{1,2}:\d\d:\d\d [AP]M GMT\+8$`
		relative = `^(now|yesterday|tomorrow|(next|last) (week|month|year)|in \d+ \w+|\d+ \w+ ago)$`
		instant  = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`
	)
	for _, page := range []string{
		"/account", "/users", "/users/" + mia, "/users?show=invites", "/agents/helper", "/agents/helper/deployments", "/tools/weather", "/skills/brief", "/knowledge/manual",
		"/chat/helper", "/chat/helper/" + chat, "/chats", "/chats/" + ofMia + "?user=" + mia, "/audit", "/usage/budgets", "/labels",
	} {
		b.visit(page)
		b.wait(`document.querySelector("main time") !== null`)
		for _, at := range eval[[][]string](b, `[...document.querySelectorAll("main time")].map((e) => [e.dateTime, e.title, e.textContent])`) {
			require.Regexp(t, instant, at[0], page)
			require.Regexp(t, exact, at[1], page)
			require.Regexp(t, relative, at[2], page)
		}
		shown := eval[string](b, `(() => { const main = document.querySelector("main").cloneNode(true); main.querySelectorAll("pre, input").forEach((e) => e.remove()); return main.textContent })()`)
		require.NotRegexp(t, `\d{4}-\d\d-\d\d|\d\d?:\d\d:\d\d`, shown, "%s has a time in another form", page)
	}
	b.visit("/audit")
	b.click(".table td button")
	b.wait(`document.querySelector("dialog time") !== null`)
	require.Regexp(t, exact, eval[string](b, `document.querySelector("dialog time").textContent`), "an entry has its exact time")
	b.click("dialog .primary")
	b.visit("/chats/" + ofMia + "/transcript?user=" + mia)
	b.wait(`document.querySelector(".entries time") !== null`)
	clock := eval[[]string](b, `((e) => [e.dateTime, e.textContent])(document.querySelector(".entries time"))`)
	at, err := time.Parse(time.RFC3339Nano, clock[0])
	require.NoError(t, err)
	require.Equal(t, at.In(time.FixedZone("", 8*3600)).Format("03:04:05.000 PM"), strings.ReplaceAll(clock[1], "\u202f", " "))
	b.clean(s.url)
}
