package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/internal/filelock"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// hubs is the file of the known hubs, in the configuration directory of the user.
type hubs struct {
	Current string          `json:"current"`
	Hubs    map[string]*hub `json:"hubs"`

	// Directories are what agenthost dev may run, by absolute paths: data directories with their ids,
	// and files of agents with what the user agreed to.
	Directories map[string]string `json:"directories,omitempty"`

	// Devices are device tokens by device. A logout keeps them.
	Devices map[string]string `json:"devices,omitempty"`
}

// device returns the key of the device token of a user of a hub.
func device(url, user string) string { return url + " " + user }

// keepDevice stores the device token of the user of a hub.
func (known *hubs) keepDevice(h *hub) {
	if token := h.Credentials.DeviceToken; token != "" {
		if known.Devices == nil {
			known.Devices = map[string]string{}
		}

		known.Devices[device(h.URL, h.User)] = token
	}
}

// hub is a known hub with the credentials of the user.
type hub struct {
	URL         string             `json:"url"`
	User        string             `json:"user,omitempty"`
	Token       string             `json:"token,omitempty"` // a CLI token, in place of Credentials
	Credentials client.Credentials `json:"credentials,omitzero"`
}

const hubsFile = "hubs.json"

// configDir returns the configuration directory.
func (a *app) configDir() (string, error) {
	if dir := a.getenv("AGENTHOST_CONFIG"); dir != "" {
		return dir, nil
	}

	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("%w; set AGENTHOST_CONFIG", err)
	}

	return filepath.Join(dir, "agenthost"), nil
}

// readHubs returns the known hubs. A missing file has none.
func (a *app) readHubs() (hubs, error) {
	known := hubs{Hubs: map[string]*hub{}}
	dir, err := a.configDir()
	if err != nil {
		return known, err
	}

	data, err := os.ReadFile(filepath.Join(dir, hubsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}

	if err == nil {
		err = jsonlimit.Unmarshal(data, &known)
	}

	if err != nil {
		return known, fmt.Errorf("read known hubs: %s: %w", filepath.Join(dir, hubsFile), err)
	}

	return known, nil
}

// lockPatience bounds the time that another process may take to refresh credentials.
const lockPatience = 30 * time.Second

// changeHubs changes the file of the known hubs while no other process does.
func (a *app) changeHubs(ctx context.Context, change func(*hubs) error) error {
	dir, err := a.configDir()
	if err != nil {
		return err
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create configuration directory: %w", err)
	}

	unlock, err := lock(ctx, filepath.Join(dir, hubsFile+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	known, err := a.readHubs()
	if err != nil {
		return err
	}

	if err := change(&known); err != nil {
		return err
	}

	data, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return fmt.Errorf("write known hubs: %w", err)
	}

	return replaceFile(filepath.Join(dir, hubsFile), append(data, '\n'))
}

// lock locks a file until the returned function is called.
func lock(ctx context.Context, path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|filelock.OpenFlags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock known hubs: %w", err)
	}

	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := filelock.Lock(file)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}

		if !errors.Is(err, filelock.ErrLocked) {
			return nil, errors.Join(fmt.Errorf("lock known hubs: %w", err), file.Close())
		}

		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("lock known hubs: %w", context.Cause(ctx)), file.Close())
		case <-tick.C:
		}
	}
}

// replaceFile writes a file that only the user can read, completely or not at all.
func replaceFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}

	_, err = file.Write(data)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}

	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}

	return nil
}

// selected returns the hub that the flags, the environment or the file name.
func (a *app) selected() (string, *hub, error) {
	if url := a.getenv("AGENTHOST_URL"); url != "" && a.hub == "" {
		return "", &hub{URL: url, Token: a.getenv("AGENTHOST_TOKEN")}, nil
	}

	known, err := a.readHubs()
	if err != nil {
		return "", nil, err
	}

	name := a.hub
	if name == "" {
		name = known.Current
	}

	h := known.Hubs[name]
	switch {
	case h != nil:
		return name, h, nil
	case a.hub != "":
		return "", nil, usage("no hub has the name %q: agenthost hubs lists the known ones", a.hub)
	}

	return "", nil, errSignedOut
}

// refresher exchanges the refresh token of credentials for new ones.
type refresher = func(context.Context, client.Credentials) (client.Credentials, error)

// connect returns a client of the selected hub. Renewed credentials are stored.
func (a *app) connect() (*client.Client, error) {
	name, h, err := a.selected()
	if err != nil {
		return nil, err
	}

	return a.newClient(h, func(ctx context.Context, old client.Credentials, refresh refresher) (renewed client.Credentials, err error) {
		err = a.changeHubs(ctx, func(known *hubs) error {
			stored := known.Hubs[name]
			if stored == nil {
				return errSignedOut
			}

			if stored.Credentials.AccessToken != old.AccessToken { // another process has renewed them
				renewed = stored.Credentials
				return nil
			}

			if renewed, err = refresh(ctx, old); err != nil {
				return err
			}

			stored.Credentials = renewed
			known.keepDevice(stored)
			return nil
		})
		return renewed, err
	})
}

func (a *app) newClient(h *hub, renew func(context.Context, client.Credentials, refresher) (client.Credentials, error)) (*client.Client, error) {
	c, err := client.New(client.Config{
		BaseURL: h.URL, Token: h.Token, Credentials: h.Credentials, UserAgent: "agenthost/" + daemon.Version(), Renew: renew, HTTPClient: httpClient(),
		OpsKey:  a.getenv("AGENTHOST_OPS_KEY"),
		Omitted: func(err error) { fmt.Fprintln(a.stderr, "agenthost: warning:", err) },
	})
	if err != nil {
		return nil, &usageError{err}
	}

	return c, nil
}
