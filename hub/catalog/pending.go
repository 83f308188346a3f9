package catalog

import (
	"context"

	"github.com/seed93082962/agenthost/hub/db"
)

func toolExists(context.Context, db.Querier, string, string) (bool, error)  { return false, nil }
func skillExists(context.Context, db.Querier, string, string) (bool, error) { return false, nil }
func toolDigests(context.Context, db.Querier, string) ([][2]string, error)  { return nil, nil }
func skillDigests(context.Context, db.Querier, string) ([][2]string, error) { return nil, nil }
