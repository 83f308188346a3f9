package console_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy"
)

// An admin reads the settings of the hub, and finds the content labels at their own address. The
// address of the settings leads maintainers to the labels, which it had before.
func TestSettingsAndLabels(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *hub.Config) {
		cfg.AddressRequests, cfg.AuditRetention, cfg.MaxDeployment = -1, 90*24*time.Hour, deploy.Bounds{Memory: "2Gi"}
	})
	root := s.setUp()
	s.join(root, "max", "maintainer")
	b := newTab(t)
	b.open(s.url + "/console/settings")
	b.signIn("root", password)
	b.see("Organization")
	facts := eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll(".facts dt")].map((e) => [e.textContent, e.nextElementSibling.textContent.replace(/ Copy$/, "")]))`)
	for name, value := range map[string]string{
		"Name": "default", "Sign-in method": "Password", "Users": "2", "Content labels": "Off", "Concurrent answers per user": "20", "Messages per user": "300 per minute",
		"Requests per address": "Unlimited", "Audit log retention": "90 days", "Usage retention": "Forever", "Runs agents with": "memory", "Max memory per agent": "2Gi",
		"Address of agents": s.url + "/runtime", "Routes": "Served by the hub", "agenthost": "1.2.3", "Database": "SQLite", "Address of the hub": s.url,
	} {
		require.Equal(t, value, facts[name], name)
	}
	require.NotContains(t, facts, "Max CPU per agent", "which has no bound")
	require.Zero(t, eval[int](b, `document.querySelectorAll("main input, main select, main .primary").length`), "nothing can be changed")
	b.fits()
	b.click(`.facts a[href$="/labels"]`)
	b.see("GB 45438-2025")
	require.Equal(t, "Content labels", eval[string](b, `document.querySelector("h1").textContent`))
	require.Equal(t, "Content labels", eval[string](b, `document.querySelector(".side [aria-current]").textContent.trim()`))
	b.clean(s.url)

	maintainer := newTab(t)
	maintainer.open(s.url + "/console/settings")
	maintainer.signIn("max", password)
	maintainer.see("GB 45438-2025")
	require.False(t, eval[bool](maintainer, `[...document.querySelectorAll(".side a")].some((a) => a.pathname.endsWith("/settings"))`))
	maintainer.clean(s.url)
	maxToken := s.call("POST", "/auth/login", "", map[string]string{"username": "max", "password": password}, http.StatusOK)["access_token"].(string)
	s.call("GET", "/api/v1/admin/settings", maxToken, nil, http.StatusForbidden)
}
