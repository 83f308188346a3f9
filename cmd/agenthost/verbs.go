package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
)

// noun names the objects of a command, for the verbs that they have in common.
type noun struct {
	group   string // the command with subcommands
	one     string // an object in a sentence, such as agent
	example string // the name of an object
	names   names  // for completion
}

// argument is the name of the argument in the help.
func (k noun) argument() string { return strings.ToUpper(strings.ReplaceAll(k.one, " ", "-")) }

// listCommand returns the command that lists all objects.
func listCommand[T any](a *app, k noun, list func(context.Context, *client.Client) iter.Seq2[T, error], columns func(T) []field) *cobra.Command {
	return a.command(action{
		use: "list", short: "List the " + k.one + "s",
		example: fmt.Sprintf("  agenthost %s list\n  agenthost %s list -o json", k.group, k.group),
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			return printList(a, list(ctx, c), columns)
		},
	})
}

// getCommand returns the command that shows an object.
func getCommand[T any](a *app, k noun, get func(context.Context, *client.Client, string) (T, error), columns func(T) []field) *cobra.Command {
	return a.command(action{
		use: "get " + k.argument(), short: "Show " + article(k.one), args: []string{k.argument()}, complete: k.names,
		example: fmt.Sprintf("  agenthost %s get %s\n  agenthost %s get %s -o yaml", k.group, k.example, k.group, k.example),
		run: func(ctx context.Context, c *client.Client, args []string) error {
			object, err := get(ctx, c, args[0])
			if err != nil {
				return err
			}

			return a.printOne(object, columns(object)...)
		},
	})
}

// deleteCommand returns the command that deletes an object. Of which kind of objects it may be, the
// condition says. what returns sentences about what else goes, or is nil.
func (a *app) deleteCommand(k noun, condition string, what func(context.Context, *client.Client, string) (string, error), remove func(context.Context, *client.Client, string) error) *cobra.Command {
	return a.command(action{
		use: "delete " + k.argument(), short: "Delete " + article(k.one) + condition, args: []string{k.argument()}, complete: k.names,
		example: fmt.Sprintf("  agenthost %s delete %s", k.group, k.example),
		goes: func(ctx context.Context, c *client.Client, args []string) (string, error) {
			text := fmt.Sprintf("The %s %s will be deleted.", k.one, args[0])
			if what == nil {
				return text, nil
			}

			more, err := what(ctx, c, args[0])
			return text + " " + more, err
		},
		run: func(ctx context.Context, c *client.Client, args []string) error {
			if err := remove(ctx, c, args[0]); err != nil {
				return err
			}

			return a.result("The %s %s is deleted.", k.one, args[0])
		},
	})
}

// downloadCommand returns the command that prints the file of an object.
func (a *app) downloadCommand(k noun, short, file string, open func(context.Context, *client.Client, string) (*client.File, error)) *cobra.Command {
	return a.command(action{
		use: "download " + k.argument(), short: short, args: []string{k.argument()}, complete: k.names,
		example: fmt.Sprintf("  agenthost %s download %s > %s", k.group, k.example, file),
		run: func(ctx context.Context, c *client.Client, args []string) error {
			file, err := open(ctx, c, args[0])
			if err != nil {
				return err
			}

			return a.write(file)
		},
	})
}

// write copies a body to stdout and closes it.
func (a *app) write(body io.ReadCloser) error {
	_, err := io.Copy(a.stdout, body)
	return errors.Join(err, body.Close())
}

// article returns a noun with its indefinite article.
func article(noun string) string {
	if strings.ContainsRune("aeAEM", rune(noun[0])) { // an MCP server
		return "an " + noun
	}

	return "a " + noun
}
