package main

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// checkTool returns the name of the tool in a file. The file is loaded in a worker: a process of
// this executable.
func checkTool(ctx context.Context, fileName, source string) (string, error) {
	name, err := js.Check(ctx, js.Config{}, fileName, source)
	if fault, ok := errors.AsType[*js.FileError](err); ok {
		return "", api.ArtifactInvalid.New("The file is not a tool: " + api.Plain(fault.Reason) + ".")
	}
	if err != nil && ctx.Err() == nil {
		return "", &api.Error{Code: api.Unavailable, Message: "The file cannot be checked now: the log of the hub has the reason.", Cause: err}
	}
	return name, err
}
