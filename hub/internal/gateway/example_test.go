package gateway_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/gateway"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
)

func Example() {
	runtime := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s with the key %s", r.URL.Path, r.Header.Get("X-Api-Key"))
	}))
	defer runtime.Close()
	service, err := gateway.New(gateway.Config{
		Store:  &store.Store{Logger: slog.New(slog.DiscardHandler)}, // in a hub, that of store.New
		Tenant: "default",
		Target: func(context.Context, string, string) (gateway.Target, error) { return gateway.Target{}, wire.NotFound },
		Authorize: func(_ context.Context, tenant, agent, key string) (gateway.Target, error) {
			if tenant != "default" || agent != "helper" || key != "k" {
				return gateway.Target{}, wire.Unauthenticated
			}
			return gateway.Target{URL: runtime.URL, AgentID: agent}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := api.New(api.Config{}, service.Routes()[0]) // the others need Config.Authenticate
	if err != nil {
		fmt.Println(err)
		return
	}
	hub := httptest.NewServer(handler)
	defer hub.Close()
	req, err := http.NewRequest(http.MethodGet, hub.URL+"/runtime/helper/v1/agents", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("X-Api-Key", "k")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	fmt.Println(string(body), err)
	// Output: /v1/agents with the key k <nil>
}
