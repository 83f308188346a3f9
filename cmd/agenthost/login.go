package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

// login has the flags of agenthost login.
type login struct {
	*app
	name    string
	user    string
	setup   string // the token of the first setup
	invite  string // the token of an invitation
	token   bool
	browser bool
}

func (a *app) loginCommand() *cobra.Command {
	l := &login{app: a}
	cmd := &cobra.Command{
		Use:   "login [URL]",
		Short: "Sign in to a hub, and use it from now on",
		Long: `Signs in to a hub with a password, with a browser on this computer, or with a CLI token that you issue in the hub. The hub
becomes the current one. Without a URL, it signs in to the current hub again. The credentials are stored for this user
only; see AGENTHOST_CONFIG.

Users of an identity provider sign in with a browser: the program opens $BROWSER, or that of the desktop, and prints the
address. On a computer without a browser, use --token.
With the link of an invitation, or that of the first setup, it creates the account.`,
		Example: `  agenthost login https://hub.example.com -u ada
  agenthost login https://hub.example.com --browser
  agenthost login https://hub.example.com --token < token.txt
  agenthost login "http://127.0.0.1:8080/console/register#setup=..." -u ada`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("agenthost login needs at most one URL")
			}

			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return l.run(cmd.Context(), strings.Join(args, "")) },
	}
	cmd.Flags().StringVarP(&l.user, "user", "u", "", "`name` of the user")
	cmd.Flags().StringVar(&l.name, "name", "", "`name` of the hub among the known ones (default its host)")
	cmd.Flags().BoolVar(&l.token, "token", false, "read a CLI token from stdin, in place of a password")
	cmd.Flags().BoolVar(&l.browser, "browser", false, "sign in with a browser on this computer, in place of a password")
	cmd.Flags().StringVar(&l.setup, "setup", "", "create the first admin with this setup `token`")
	cmd.MarkFlagsMutuallyExclusive("token", "browser", "setup")
	return cmd
}

func (l *login) run(ctx context.Context, address string) error {
	if address == "" {
		name, h, err := l.selected()
		if err != nil {
			return err
		}

		if address, l.name = h.URL, name; l.user == "" {
			l.user = h.User
		}
	}

	base, err := url.Parse(address)
	if err != nil || base.Host == "" {
		return usage("%q is not the address of a hub, such as https://hub.example.com", address)
	}

	link, err := url.ParseQuery(base.Fragment)
	if err != nil {
		return usage("%q is not the address of a hub: its fragment cannot be parsed", address)
	}

	l.setup = cmp.Or(l.setup, link.Get("setup"))
	l.invite = link.Get("token")
	base.Path, _, _ = strings.Cut(base.Path+"/", "/console/") // also the address of a page
	base.Fragment = ""
	h := &hub{URL: strings.TrimRight(base.String(), "/"), User: l.user}
	c, err := l.newClient(h, nil)
	if err != nil {
		return err
	}

	if err := l.signIn(ctx, c, h); err != nil {
		return err
	}

	if c, err = l.newClient(h, nil); err != nil {
		return err
	}

	me, err := c.Auth.UserInfo(ctx)
	if err != nil {
		return err
	}

	h.User = me.Username
	if l.name == "" {
		l.name = base.Host
	}

	err = l.changeHubs(ctx, func(known *hubs) error {
		known.Hubs[l.name] = h
		known.Current = l.name
		known.keepDevice(h)
		return nil
	})
	if err != nil {
		return err
	}

	return l.result("Signed in to %s as %s (%s).", h.URL, me.Username, me.Role)
}

// signIn sets the credentials of a hub.
func (l *login) signIn(ctx context.Context, c *client.Client, h *hub) error {
	if l.token {
		token, err := l.secret("CLI token")
		h.Token = strings.TrimSpace(token)
		if err == nil && h.Token == "" {
			err = usage("stdin has no token")
		}

		return err
	}

	mode, err := c.Auth.Mode(ctx)
	if err != nil {
		return err
	}

	if mode.SetupRequired && l.setup == "" {
		return usage("this hub has no user yet: use the setup link that it printed, or --setup TOKEN")
	}

	if l.browser || mode.Mode != "builtin" {
		err := l.signInWithBrowser(ctx, c, h.URL)
		h.Credentials = c.Credentials()
		return err
	}

	if h.User == "" {
		if h.User, err = l.ask("Username"); err != nil {
			return err
		}
	}

	password, err := l.secret("Password")
	if err != nil {
		return err
	}

	var signed wire.Login
	switch {
	case l.setup != "":
		signed, err = c.Auth.Setup(ctx, wire.SetupRequest{Username: h.User, Password: password, SetupToken: l.setup})
	case l.invite != "":
		signed, err = c.Auth.Register(ctx, wire.RegisterRequest{Token: l.invite, Username: h.User, Password: password})
	default:
		known, unread := l.readHubs()
		if unread != nil {
			return unread
		}

		c.SetCredentials(client.Credentials{DeviceToken: known.Devices[device(h.URL, h.User)]})
		signed, err = c.Auth.Login(ctx, h.User, password)
	}

	if err == nil && signed.MustChangePassword {
		l.note("The password must be changed: run agenthost password.")
	}

	h.Credentials = c.Credentials()
	return err
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "logout",
		Short:             "Sign out of the current hub, and forget it",
		Long:              "Signs out of the current hub and forgets its credentials. A CLI token is revoked.",
		Example:           "  agenthost logout\n  agenthost logout --hub hub.example.com",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, h, err := a.selected()
			if err != nil {
				return err
			}

			if name == "" {
				return usage("AGENTHOST_URL names the hub: revoke its token with agenthost tokens revoke")
			}

			c, err := a.connect()
			if err != nil {
				return err
			}

			ended := c.Auth.Logout(cmd.Context())
			if errors.Is(ended, wire.Unauthenticated) || errors.Is(ended, wire.TokenExpired) || errors.Is(ended, wire.TokenRevoked) {
				ended = nil
			}

			err = a.changeHubs(cmd.Context(), func(known *hubs) error {
				delete(known.Hubs, name)
				if known.Current == name {
					known.Current = ""
				}

				return nil
			})
			if err := errors.Join(ended, err); err != nil {
				return err
			}

			return a.result("Signed out of %s.", h.URL)
		},
	}
}

func (a *app) whoamiCommand() *cobra.Command {
	return a.command(action{
		use: "whoami", short: "Show the user and the role at the current hub",
		example: "  agenthost whoami\n  agenthost whoami -o json",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			me, err := c.Auth.UserInfo(ctx)
			if err != nil {
				return err
			}

			return a.printOne(me,
				field{"user", me.Username},
				field{"name", me.DisplayName},
				field{"role", me.Role},
				field{"organization", me.TenantID},
				field{"email", me.Email},
				field{"groups", me.Groups},
			)
		},
	})
}

func (a *app) passwordCommand() *cobra.Command {
	return a.command(action{
		use: "password", short: "Change the own password",
		long:    "Changes the own password, which it reads from the terminal, or from two lines of stdin: the old one and the new one.",
		example: "  agenthost password",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			old, err := a.secret("Old password")
			if err != nil {
				return err
			}

			changed, err := a.secret("New password")
			if err != nil {
				return err
			}

			if err := c.Auth.ChangePassword(ctx, old, changed); err != nil {
				return err
			}

			return a.result("The password is changed.")
		},
	})
}

// knownHub is a row of agenthost hubs.
type knownHub struct {
	Name    string `json:"name"`
	URL     string `json:"url"`
	User    string `json:"user"`
	Current bool   `json:"current"`
}

func (a *app) hubsCommand() *cobra.Command {
	list := func(*cobra.Command, []string) error {
		known, err := a.readHubs()
		if err != nil {
			return err
		}

		return printList(a, func(yield func(knownHub, error) bool) {
			for _, name := range slices.Sorted(maps.Keys(known.Hubs)) {
				h := known.Hubs[name]
				if !yield(knownHub{name, h.URL, h.User, name == known.Current}, nil) {
					return
				}
			}
		},
			func(h knownHub) []field {
				return []field{
					{"name", h.Name},
					{"url", h.URL},
					{"user", h.User},
					{"current", h.Current},
				}
			},
		)
	}
	cmd := group("hubs", "List the known hubs, and choose one", "  agenthost hubs\n  agenthost hubs use hub.example.com",
		&cobra.Command{
			Use: "use NAME", Short: "Use a known hub from now on", Example: "  agenthost hubs use dev", Args: exactly("NAME"),
			ValidArgsFunction: a.completeHubs,
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.changeHubs(cmd.Context(), func(known *hubs) error {
					if known.Hubs[args[0]] == nil {
						return usage("no hub has the name %q: agenthost hubs lists the known ones", args[0])
					}

					known.Current = args[0]
					return nil
				})
			},
		})
	cmd.RunE = list
	return cmd
}
