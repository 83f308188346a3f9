package main

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

// maxNames bounds the names that are completed.
const maxNames = 500

// collect returns the names of a list.
func collect[T any](all iter.Seq2[T, error], name func(T) string) ([]string, error) {
	var found []string
	for item, err := range all {
		if err != nil || len(found) == maxNames {
			return found, err
		}

		found = append(found, name(item))
	}

	return found, nil
}

func agentNames(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.Agents.List(ctx, ""), func(a wire.Agent) string { return a.Name })
}

func toolNames(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.Tools.List(ctx, ""), func(t wire.Tool) string { return t.Name })
}

func skillNames(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.Skills.List(ctx, ""), func(s wire.Skill) string { return s.Name })
}

func providerNames(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.Providers.List(ctx, ""), func(p wire.Provider) string { return p.Name })
}

func userNames(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.Users.List(ctx), func(u wire.User) string { return u.Username })
}

func inviteNames(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.Users.Invites(ctx), func(i wire.Invite) string { return reference(i.ID).String() + "\t" + i.Note })
}

func tokenNames(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.Auth.Tokens(ctx), func(t wire.Token) string { return t.Name })
}

// completeHubs completes the name of a known hub.
func (a *app) completeHubs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	known, _ := a.readHubs() // none after an error
	return slices.Sorted(maps.Keys(known.Hubs)), cobra.ShellCompDirectiveNoFileComp
}
