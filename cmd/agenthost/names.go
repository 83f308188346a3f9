package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

// reference is an id, of which tables have only the end: that of a UUID is random.
type reference string

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	uuid    = regexp.MustCompile("^" + anyUUID.String() + "$")
)

// shown is the number of characters of a UUID that a table has.
const shown = 8

func (id reference) String() string {
	if uuid.MatchString(string(id)) {
		return string(id[len(id)-shown:])
	}

	return string(id)
}

// identity is what names an object: its id, and its name if it has one.
type identity struct {
	id     reference
	name   string
	shared bool // with all organizations: an object of the organization with the name comes first
}

// find returns the object that a text names: with its id, its name in any letter case, or the end
// of its id that tables have. It fails if several objects have that name.
func find[T any](k noun, all iter.Seq2[T, error], text string, identify func(T) identity) (T, error) {
	var none T
	var exact, folded []T
	for object, err := range all {
		if err != nil {
			return none, err
		}

		switch of := identify(object); {
		case string(of.id) == text && !of.shared:
			return object, nil
		case string(of.id) == text, of.name == text, of.id.String() == text:
			exact = append(exact, object)
		case strings.EqualFold(of.name, text):
			folded = append(folded, object)
		}
	}

	if len(exact) == 0 {
		exact = folded
	}

	own := slices.DeleteFunc(slices.Clone(exact), func(object T) bool { return identify(object).shared })
	if len(own) > 0 {
		exact = own
	}

	switch len(exact) {
	case 0:
		return none, fmt.Errorf("%w: no %s has the name %q: agenthost %s list lists them", errNotFound, k.one, text, k.group)
	case 1:
		return exact[0], nil
	}

	var candidates []string
	for _, object := range exact {
		candidates = append(candidates, fmt.Sprintf("%s (%s)", identify(object).name, identify(object).id))
	}

	return none, usage("%q is ambiguous: it names %s; use the text in parentheses", text, strings.Join(candidates, ", "))
}

// findProvider returns the provider with a name or an id.
func findProvider(ctx context.Context, c *client.Client, text string) (wire.Provider, error) {
	return find(providerKind, c.Providers.List(ctx, ""), text, func(p wire.Provider) identity { return identity{reference(p.ID), p.Name, p.Shared} })
}

// providersByID returns the names of the providers.
func providersByID(ctx context.Context, c *client.Client) (map[string]string, error) {
	names := map[string]string{}
	for p, err := range c.Providers.List(ctx, "") {
		if err != nil {
			return nil, err
		}

		names[p.ID] = p.Name
	}

	return names, nil
}

// findUser returns the user with a name or an id.
func findUser(ctx context.Context, c *client.Client, text string) (wire.User, error) {
	return find(userKind, c.Users.List(ctx), text, func(u wire.User) identity { return identity{id: reference(u.ID), name: u.Username} })
}

// usersByID returns the names of users. Those who cannot list the users get the names of those who
// have used an agent.
func usersByID(ctx context.Context, c *client.Client) (map[string]string, error) {
	names := map[string]string{}
	for user, err := range c.Users.List(ctx) {
		if errors.Is(err, wire.Forbidden) {
			break
		}

		if err != nil {
			return nil, err
		}

		names[user.ID] = user.Username
	}

	if len(names) > 0 {
		return names, nil
	}

	for row, err := range c.Usage.Report(ctx, client.UsageFilter{By: []string{"user"}}) {
		if err != nil {
			return nil, err
		}

		names[row.UserID] = row.UserName
	}

	return names, nil
}

var tokenKind = noun{group: "tokens", one: "token", example: "ci", names: tokenNames}

// findToken returns the token with a name or an id in a list.
func findToken(all iter.Seq2[wire.Token, error], text string) (wire.Token, error) {
	return find(tokenKind, all, text, func(t wire.Token) identity { return identity{id: reference(t.ID), name: t.Name} })
}

var inviteKind = noun{group: "invites", one: "invitation", example: "Noa", names: inviteNames}

// findInvite returns the invitation with a note or an id.
func findInvite(ctx context.Context, c *client.Client, text string) (wire.Invite, error) {
	return find(inviteKind, c.Users.Invites(ctx), text, func(i wire.Invite) identity { return identity{id: reference(i.ID), name: i.Note} })
}

var sessionKind = noun{group: "sessions", one: "session", example: "5f3a91c2", names: sessionIDs}

// findSession returns the session with a title or an id. The owner, which may be empty, selects one
// of those that several users have pushed with one id.
func findSession(ctx context.Context, c *client.Client, text, owner string) (wire.ChatSession, error) {
	if owner == "" {
		session, err := c.History.Get(ctx, text, "")
		if !errors.Is(err, wire.NotFound) || uuid.MatchString(text) {
			return session, err
		}
	}

	owned := func(yield func(wire.ChatSession, error) bool) {
		for s, err := range c.History.List(ctx, client.HistoryFilter{User: owner}) {
			if err == nil && owner != "" && s.UserID != owner && !strings.EqualFold(s.UserName, owner) {
				continue
			}

			if !yield(s, err) {
				return
			}
		}
	}
	return find(sessionKind, owned, text, func(s wire.ChatSession) identity { return identity{id: reference(s.ID), name: s.Title} })
}

// several bounds the objects that are counted for a text.
const several = 1000

// count returns the number of objects with its noun, such as "2 chats".
func count[T any](all iter.Seq2[T, error], noun string, of func(T) bool) (string, error) {
	n := 0
	for object, err := range all {
		if err != nil {
			return "", err
		}

		if of == nil || of(object) {
			n++
		}

		if n == several {
			return fmt.Sprintf("%d or more %ss", n, noun), nil
		}
	}

	if n == 1 {
		return "1 " + noun, nil
	}

	return fmt.Sprintf("%d %ss", n, noun), nil
}

// usersOf returns a sentence about the agents that have a name in a list.
func usersOf(ctx context.Context, c *client.Client, uses func(wire.Agent) bool) (string, error) {
	var names []string
	for agent, err := range c.Agents.List(ctx, "") {
		if err != nil {
			return "", err
		}

		if uses(agent) {
			names = append(names, agent.Name)
		}
	}

	if len(names) == 0 {
		return "No agent uses it.", nil
	}

	slices.Sort(names)
	return "It is used by " + strings.Join(names, ", ") + ".", nil
}
