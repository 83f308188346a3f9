package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

func userColumns(u wire.User) []field {
	return []field{
		{"user", u.Username},
		{"name", u.DisplayName},
		{"role", u.Role},
		{"status", u.Status},
		{"last login", u.LastLoginAt},
	}
}

var userKind = noun{group: "users", one: "user", example: "mia", names: userNames}

func (a *app) usersCommand() *cobra.Command {
	tokens := func(ctx context.Context, c *client.Client, user wire.User) error {
		return printList(a, c.Users.Tokens(ctx, user.ID), tokenColumns)
	}
	sessions := func(ctx context.Context, c *client.Client, user wire.User) error {
		return printList(a, c.Users.Sessions(ctx, user.ID), loginColumns)
	}
	return group("users", "List and change the users of the organization", "  agenthost users list\n  agenthost users set mia --role maintainer",
		listCommand(a, userKind, func(ctx context.Context, c *client.Client) iter.Seq2[wire.User, error] { return c.Users.List(ctx) }, userColumns),
		getCommand(a, userKind, findUser, userColumns),
		a.createUserCommand(), a.setUserCommand(),
		a.userCommand("reset-password", "Print a new password for a user, who must change it", resetGoes, func(ctx context.Context, c *client.Client, user wire.User) error {
			password, err := c.Users.ResetPassword(ctx, user.ID)
			if err != nil {
				return err
			}

			_, err = fmt.Fprintln(a.stdout, password)
			return err
		}),
		a.userCommand("logins", "List the sign-ins of a user", nil, sessions),
		a.userCommand("sign-out", "End all sign-ins of a user", nil, func(ctx context.Context, c *client.Client, user wire.User) error {
			if err := c.Users.EndSessions(ctx, user.ID); err != nil {
				return err
			}

			return a.result("The sign-ins of %s are ended.", user.Username)
		}),
		a.userCommand("tokens", "List the CLI tokens of a user", nil, tokens),
		a.command(action{
			use: "revoke-token USER TOKEN", short: "Revoke a CLI token of a user", args: []string{"USER", "TOKEN"}, complete: userNames,
			example: "  agenthost users revoke-token mia ci",
			goes: func(_ context.Context, _ *client.Client, args []string) (string, error) {
				return fmt.Sprintf("The token %s of %s will be revoked: programs that use it are rejected.", args[1], args[0]), nil
			},
			run: func(ctx context.Context, c *client.Client, args []string) error {
				user, err := findUser(ctx, c, args[0])
				if err != nil {
					return err
				}

				token, err := findToken(c.Users.Tokens(ctx, user.ID), args[1])
				if err != nil {
					return err
				}

				if err := c.Users.RevokeToken(ctx, user.ID, token.ID); err != nil {
					return err
				}

				return a.result("The token %s is revoked.", token.Name)
			},
		}),
		a.deleteCommand(userKind, "", userGoes, func(ctx context.Context, c *client.Client, name string) error {
			user, err := findUser(ctx, c, name)
			if err != nil {
				return err
			}

			return c.Users.Delete(ctx, user.ID)
		}),
	)
}

// userGoes returns what goes with a user.
func userGoes(ctx context.Context, c *client.Client, name string) (string, error) {
	user, err := findUser(ctx, c, name)
	if err != nil {
		return "", err
	}

	credentials, err := credentialsOf(ctx, c, user)
	if err != nil {
		return "", err
	}

	chats, err := count(c.History.List(ctx, client.HistoryFilter{User: user.ID}), "conversation", nil)
	if err != nil {
		return "", err
	}

	return fmt.Sprintf("With it go %s and the budget. Admins can still read %s.", credentials, chats), nil
}

// credentialsOf returns how many CLI tokens and sign-ins a user has.
func credentialsOf(ctx context.Context, c *client.Client, user wire.User) (string, error) {
	tokens, err := count(c.Users.Tokens(ctx, user.ID), "CLI token", nil)
	if err != nil {
		return "", err
	}

	logins, err := count(c.Users.Sessions(ctx, user.ID), "sign-in", nil)
	return tokens + ", " + logins, err
}

// resetGoes returns what goes with the password of a user.
func resetGoes(ctx context.Context, c *client.Client, args []string) (string, error) {
	user, err := findUser(ctx, c, args[0])
	if err != nil {
		return "", err
	}

	credentials, err := credentialsOf(ctx, c, user)
	return fmt.Sprintf("The password of %s will be replaced. With it go %s and the open invitations.", user.Username, credentials), err
}

// userCommand returns a command for a user. goes is that of its action.
func (a *app) userCommand(verb, short string, goes func(context.Context, *client.Client, []string) (string, error),
	run func(context.Context, *client.Client, wire.User) error,
) *cobra.Command {
	return a.command(action{
		goes: goes,
		use:  verb + " USER", short: short, args: []string{"USER"}, complete: userNames, example: "  agenthost users " + verb + " mia",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			user, err := findUser(ctx, c, args[0])
			if err != nil {
				return err
			}

			return run(ctx, c, user)
		},
	})
}

var roles = cobra.FixedCompletions([]string{"admin", "maintainer", "member"}, cobra.ShellCompDirectiveNoFileComp)

func (a *app) createUserCommand() *cobra.Command {
	var req wire.CreateUserRequest
	cmd := a.command(action{
		use: "create USER", short: "Create a user with a first password", args: []string{"USER"},
		long:    "Creates a user, whose first password it reads from the terminal or from a line of stdin. The user must change it.",
		example: "  agenthost users create mia --role maintainer",
		run: func(ctx context.Context, c *client.Client, args []string) (err error) {
			req.Username = args[0]
			if req.Password, err = a.secret("Password"); err != nil {
				return err
			}

			user, err := c.Users.Create(ctx, req)
			if err != nil {
				return err
			}

			return a.printOne(user, userColumns(user)...)
		},
	})
	cmd.Flags().StringVar((*string)(&req.Role), "role", "member", "`role`: admin, maintainer or member")
	cmd.Flags().StringVar(&req.DisplayName, "name", "", "display `name`")
	_ = cmd.RegisterFlagCompletionFunc("role", roles)
	return cmd
}

func (a *app) setUserCommand() *cobra.Command {
	var role, status, name string
	cmd := a.command(action{
		use: "set USER", short: "Change the role, the status or the name of a user", args: []string{"USER"}, complete: userNames,
		example: "  agenthost users set mia --role maintainer\n  agenthost users set mia --status disabled",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			var req wire.ChangeUserRequest
			if role != "" {
				req.Role = new(rbac.Role(role))
			}

			if status != "" {
				req.Status = &status
			}

			if name != "" {
				req.DisplayName = &name
			}

			if req == (wire.ChangeUserRequest{}) {
				return usage("nothing to change: use --role, --status or --name")
			}

			user, err := findUser(ctx, c, args[0])
			if err == nil {
				user, err = c.Users.Update(ctx, user.ID, req)
			}

			if err != nil {
				return err
			}

			return a.printOne(user, userColumns(user)...)
		},
	})
	cmd.Flags().StringVar(&role, "role", "", "`role`: admin, maintainer or member")
	cmd.Flags().StringVar(&status, "status", "", "active or disabled")
	cmd.Flags().StringVar(&name, "name", "", "display `name`")
	_ = cmd.RegisterFlagCompletionFunc("role", roles)
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions([]string{"active", "disabled"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) invitesCommand() *cobra.Command {
	var role, note string
	create := a.command(action{
		use: "create", short: "Print a link with which a user registers", example: "  agenthost invites create --role member --note \"Mia\"",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			invite, err := c.Users.Invite(ctx, rbac.Role(role), note)
			if err != nil {
				return err
			}

			return a.printOne(invite,
				field{"link", invite.URL},
				field{"invitation", reference(invite.ID)},
				field{"role", invite.Role},
				field{"expires", invite.ExpiresAt},
			)
		},
	})
	create.Flags().StringVar(&role, "role", "member", "`role`: admin, maintainer or member")
	create.Flags().StringVar(&note, "note", "", "`text` to recognize the invitation")
	_ = create.RegisterFlagCompletionFunc("role", roles)
	return group("invites", "Create, list and revoke invitations", "  agenthost invites create --role member",
		create,
		a.command(action{
			use: "list", short: "List the invitations", example: "  agenthost invites list",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				return printList(a, c.Users.Invites(ctx), func(i wire.Invite) []field {
					return []field{
						{"invitation", reference(i.ID)},
						{"role", i.Role},
						{"status", i.Status},
						{"expires", i.ExpiresAt},
						{"used by", i.UsedBy},
						{"note", i.Note},
					}
				})
			},
		}),
		a.command(action{
			use: "revoke INVITATION", short: "Revoke an invitation", args: []string{"INVITATION"}, complete: inviteNames,
			long:    "Revokes an invitation, which is given by its note, or by the first column of agenthost invites list.",
			example: "  agenthost invites revoke Mia",
			goes: func(_ context.Context, _ *client.Client, args []string) (string, error) {
				return fmt.Sprintf("The invitation %s will be revoked: nobody can register with its link.", args[0]), nil
			},
			run: func(ctx context.Context, c *client.Client, args []string) error {
				invite, err := findInvite(ctx, c, args[0])
				if err == nil {
					err = c.Users.RevokeInvite(ctx, invite.ID)
				}

				if err != nil {
					return err
				}

				return a.result("The invitation %s is revoked.", args[0])
			},
		}),
	)
}
