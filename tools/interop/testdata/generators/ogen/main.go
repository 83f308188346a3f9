// Command ogen calls both servers with the clients that ogen generates.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"reflect"

	"generators/ogen/hub"
	"generators/ogen/runtime"
)

type caller struct {
	hub.SecuritySource // the other credentials of the hub, which no call needs
	token              string
}

func (c *caller) Bearer(context.Context, hub.OperationName) (hub.Bearer, error) {
	return hub.Bearer{Token: c.token}, nil
}

func (c *caller) ApiKey(context.Context, runtime.OperationName) (runtime.ApiKey, error) {
	return runtime.ApiKey{APIKey: os.Getenv("KEY")}, nil
}

func main() {
	ctx, me := context.Background(), new(caller)
	h := must(hub.NewClient(os.Getenv("HUB"), me))
	credentials := request[hub.LoginRequest](map[string]any{"username": "admin", "password": os.Getenv("PASSWORD")})
	me.token = response(h.Login(ctx, credentials))["access_token"].(string)
	agent := request[hub.AgentRequest](map[string]any{"name": os.Getenv("NAME"), "providerId": os.Getenv("PROVIDER"), "model": "m"})
	created := response(h.CreateAgent(ctx, agent))
	conflict := response(h.CreateAgent(ctx, agent))
	listed := response(h.ListAgents(ctx, hub.ListAgentsParams{Q: hub.NewOptString(os.Getenv("NAME"))}))
	var names []any
	for _, item := range listed["items"].([]any) {
		names = append(names, item.(map[string]any)["name"])
	}

	r := must(runtime.NewClient(os.Getenv("RUNTIME"), me))
	health := response(r.Health(ctx))
	run := request[runtime.RunRequest](map[string]any{"message": "Hello", "stream": false})
	ran := response(r.StartRun(ctx, run, runtime.StartRunParams{AgentId: "bot"}))
	unknown := response(r.StartRun(ctx, run, runtime.StartRunParams{AgentId: "nobody"}))
	must(0, json.NewEncoder(os.Stdout).Encode(map[string]any{
		"created":  created["name"],
		"conflict": conflict["code"],
		"listed":   names,
		"health":   health["status"],
		"state":    ran["state"],
		"text":     ran["text"],
		"unknown":  unknown["error"],
	}))
}

// request returns the generated type with these fields.
func request[T any](fields map[string]any) *T {
	value := new(T)
	must(0, json.Unmarshal(must(json.Marshal(fields)), value))
	return value
}

// response returns the body of a response, whose type has it next to the headers.
func response(value any, err error) map[string]any {
	body := reflect.ValueOf(must(value, err)).Elem().FieldByName("Response").Addr().Interface()
	var fields map[string]any
	must(0, json.Unmarshal(must(json.Marshal(body)), &fields))
	return fields
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
