// Command oapi-codegen calls both servers with the clients that oapi-codegen generates.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"

	"generators/oapi-codegen/hub"
	"generators/oapi-codegen/runtime"
)

func main() {
	ctx := context.Background()
	token, key := "", os.Getenv("KEY")
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	h := must(hub.NewClientWithResponses(os.Getenv("HUB"), hub.WithRequestEditorFn(authorize)))
	login := must(h.LoginWithResponse(ctx, hub.LoginJSONRequestBody{Username: "admin", Password: os.Getenv("PASSWORD")}))
	token = login.JSON200.AccessToken
	agent := hub.CreateAgentJSONRequestBody{Name: os.Getenv("NAME"), ProviderId: os.Getenv("PROVIDER"), Model: "m"}
	created := must(h.CreateAgentWithResponse(ctx, agent))
	conflict := must(h.CreateAgentWithResponse(ctx, agent))
	listed := must(h.ListAgentsWithResponse(ctx, &hub.ListAgentsParams{Q: &agent.Name}))
	var names []string
	for _, item := range listed.JSON200.Items {
		names = append(names, item.Name)
	}

	identify := func(_ context.Context, r *http.Request) error {
		r.Header.Set("X-Api-Key", key)
		return nil
	}
	r := must(runtime.NewClientWithResponses(os.Getenv("RUNTIME"), runtime.WithRequestEditorFn(identify)))
	health := must(r.HealthWithResponse(ctx))
	var run runtime.StartRunJSONRequestBody
	must(0, json.Unmarshal([]byte(`{"message":"Hello","stream":false}`), &run))
	ran := must(must(r.StartRunWithResponse(ctx, "bot", run)).JSON200.AsCompletedRun())
	unknown := must(r.StartRunWithResponse(ctx, "nobody", run))
	must(0, json.NewEncoder(os.Stdout).Encode(map[string]any{
		"created":  created.JSON201.Name,
		"conflict": conflict.JSON409.Code,
		"listed":   names,
		"health":   health.JSON200.Status,
		"state":    ran.State,
		"text":     ran.Text,
		"unknown":  unknown.JSON404.Error,
	}))
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
