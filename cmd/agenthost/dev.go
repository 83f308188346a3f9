package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/hub/client"
)

// devHub is the name of the hub of agenthost dev in the known hubs.
const devHub = "dev"

// stopPatience bounds the time in which the runtimes of agents end.
const stopPatience = 15 * time.Second

// dev is a hub on this machine with agents that are its own.
type dev struct {
	*app
	addr    string
	data    string
	agents  string
	model   string
	verbose bool
	yes     bool
	token   string // of this process, as user dev
	link    string // of the setup, or empty
	client  *client.Client
}

func (a *app) devCommand() *cobra.Command {
	d := &dev{app: a}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Serve a hub with a demo agent on this machine, without any set-up",
		Long: `Serves a hub on this machine, with a database and files in one directory, and deploys an agent as a process of this
machine: demo, or the agents of a directory. Prints a link with which you create your account.

The demo agent has the provider of OPENAI_API_KEY or ANTHROPIC_API_KEY, and without a key a model that only echoes.

The data of each working directory is in the state directory of the user. The first start with a directory of agents, or with
data that this user has not created, prints what would run, and asks.

While it runs, the other commands use it as the hub dev: they need no login on this machine. The agents stop when it ends.`,
		Example: `  agenthost dev
  ANTHROPIC_API_KEY=... agenthost dev --model claude-sonnet-4-5
  agenthost dev --agents ./agents --addr 127.0.0.1:9000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.serve(cmd.Context()) },
	}
	cmd.Flags().StringVar(&d.addr, "addr", "127.0.0.1:8080", "loopback `address` to listen on")
	cmd.Flags().StringVar(&d.data, "data", "", "`directory` of the database and the files (default one of the user's state directory)")
	cmd.Flags().StringVar(&d.agents, "agents", "", "`directory` with agents.yaml, whose agents are deployed when they change")
	cmd.Flags().StringVar(&d.model, "model", "", "`model` of the demo agent (default that of the provider)")
	cmd.Flags().BoolVar(&d.verbose, "verbose", false, "log requests")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "run what is new in these directories without a question")
	return cmd
}

// agree asks whether the new agents or data of a directory may run, unless --yes is given.
func (d *dev) agree(ctx context.Context, what, question string) error {
	if d.yes {
		fmt.Fprint(d.stderr, what)
		return nil
	}

	return d.confirm(ctx, what, question)
}

// serve serves until ctx ends, and then stops the agents.
func (d *dev) serve(ctx context.Context) error {
	if err := loopback(d.addr); err != nil {
		return err
	}

	if d.agents != "" {
		if err := d.confirmAgents(ctx); err != nil {
			return err
		}
	}

	if err := d.useData(ctx); err != nil {
		return err
	}

	lock, err := d.lockData()
	if err != nil {
		return err
	}

	defer func() { _ = lock.Close() }()
	fmt.Fprintf(d.stdout, "Data: %s\n", d.data) // before the database is opened and migrated
	d.token = "dev_" + rand.Text()
	level := daemon.Level{Level: zerolog.ErrorLevel}
	if d.verbose {
		level.Level = zerolog.InfoLevel
	}

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	ready := make(chan string, 1) // the URL
	go func() {
		ended <- hubcmd.ServeLocal(serving, hubcmd.Local{
			Addr: d.addr, DataDir: d.data, Getenv: d.getenv, Logger: daemon.NewLogger(raw(d.stderr), level), Token: d.token, User: devHub,
			Started: func(url, link string) {
				d.link = link
				ready <- url
			},
		})
	}()
	select {
	case err := <-ended:
		return withFreePort(err, d.addr)
	case url := <-ready:
		if err := d.start(ctx, url); err != nil {
			stop()
			return errors.Join(err, <-ended)
		}
	}

	var working sync.WaitGroup
	working.Go(func() { d.work(ctx) })
	working.Go(func() { d.watchServers(ctx) })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}

	working.Wait()
	d.stop(context.WithoutCancel(ctx))
	stop()
	return <-ended
}

// start prints how to use the hub, and makes it known to the other commands.
func (d *dev) start(ctx context.Context, url string) error {
	own := &hub{URL: url, User: devHub, Token: d.token}
	var err error
	if d.client, err = d.newClient(own, nil); err != nil {
		return err
	}

	err = d.changeHubs(ctx, func(known *hubs) error {
		if former := known.Hubs[known.Current]; former == nil || known.Current == devHub {
			known.Current = devHub
		}

		known.Hubs[devHub] = own
		return nil
	})
	if err != nil {
		return err
	}

	fmt.Fprintf(d.stdout, "agenthost dev %s, listening on %s\n", daemon.Version(), url)
	if d.link != "" {
		fmt.Fprintf(d.stdout, "Create your account in a browser, once:\n\n  %s\n\n", d.link)
	}

	return nil
}

// work deploys the agents, and those of a directory again when they change.
func (d *dev) work(ctx context.Context) {
	var err error
	if d.agents == "" {
		err = d.deployDemo(ctx)
	} else {
		err = d.followFolder(ctx)
	}

	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(d.stderr, "agenthost dev:", d.explain(err))
	}
}

// stop stops the agents, and removes the credentials of this process.
func (d *dev) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if err := d.stopAgents(ctx); err != nil {
		fmt.Fprintln(d.stderr, "agenthost dev:", d.explain(err))
	}

	err := d.changeHubs(ctx, func(known *hubs) error {
		if own := known.Hubs[devHub]; own != nil && own.Token == d.token {
			delete(known.Hubs, devHub)
			if known.Current == devHub {
				known.Current = ""
			}
		}

		return nil
	})
	if err != nil {
		fmt.Fprintln(d.stderr, "agenthost dev:", err)
	}
}

// stopAgents stops the runtimes of all agents and waits for their ends.
func (d *dev) stopAgents(ctx context.Context) error {
	var stopping sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	for agent, err := range d.client.Agents.List(ctx, "") {
		if err != nil {
			return err
		}

		stopping.Go(func() {
			state, err := d.client.Deployments.Get(ctx, agent.Name)
			if err == nil && state.Desired == "running" {
				state, err = d.client.Deployments.Stop(ctx, agent.Name)
			}

			for err == nil && state.State == "stopping" {
				state, err = d.client.Deployments.Wait(ctx, agent.Name, state)
			}

			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}

	stopping.Wait()
	return failed
}
