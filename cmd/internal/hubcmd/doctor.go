package hubcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/internal/doctor"
)

// doctor returns the command that checks the installation.
func (s *Settings) doctor(stdout io.Writer) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation: what is wrong with it and how to fix it",
		Long: `Checks the settings, the encryption key, the database, the files, the deployer, the gateway, the clock, the public
address, its proxies and the disk. It changes nothing, whether the hub runs or not. It fails if a check has an error.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("-o %q is neither text nor json", output)
			}

			results := s.examine(cmd.Context())
			if err := printResults(stdout, output, results); err != nil {
				return err
			}

			if n := doctor.Failed(results); n > 0 {
				return fmt.Errorf("%d of %d checks found an error", n, len(results))
			}

			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", output, "`format`: text or json")
	return cmd
}

func printResults(w io.Writer, format string, results []doctor.Result) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(results)
	}

	for _, r := range results {
		if _, err := fmt.Fprintf(w, "%-8s %-9s %s\n", r.Status, r.Check, r.Fact); err != nil {
			return err
		}

		if r.Fix != "" {
			fmt.Fprintf(w, "%18s fix: %s\n", "", r.Fix)
		}
	}

	return nil
}

// examine checks the parts that the settings name, and then the hub that they make. Only valid
// settings make one.
func (s *Settings) examine(ctx context.Context) []doctor.Result {
	results := doctor.Run(ctx, doctor.Check{Name: "settings", Do: s.examineSettings})
	if doctor.Failed(results) > 0 {
		return results
	}

	results = append(results, doctor.Run(ctx,
		doctor.Check{Name: "modes", Do: s.examineModes},
		doctor.Check{Name: "disk", Do: s.examineDisk},
		doctor.Check{Name: "hub", Do: s.examineHub},
		doctor.Check{Name: "deployer", Do: s.examineProcesses},
	)...)
	cfg, closers, faults := s.examined(ctx)
	results = append(results, faults...)
	results = append(results, hub.Diagnose(ctx, cfg)...)
	for _, c := range closers {
		_ = c.Close() // it was only read
	}

	return results
}

func (s *Settings) examineSettings(context.Context) []doctor.Result {
	err := s.check()
	if err == nil {
		return doctor.Fine("the settings are valid")
	}

	var results []doctor.Result
	for text := range strings.Lines(err.Error()) {
		results = append(results, doctor.Fail(strings.TrimSpace(text), "correct the settings of the hub, which hub --help describes")...)
	}

	return results
}

// examineModes reports files of secrets that other users can read.
func (s *Settings) examineModes(context.Context) []doctor.Result {
	if runtime.GOOS == "windows" {
		return nil // a mode does not control access there
	}

	paths := slices.Clone(s.Secrets)
	if path := s.databaseFile(); path != "" {
		paths = append(paths, path, path+"-wal")
	}

	var results []doctor.Result
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			results = append(results, doctor.Warn(fmt.Sprintf("other users can access %s (mode %v)", path, info.Mode().Perm()), "run chmod 600 "+path)...)
		}
	}

	return results
}

func (s *Settings) examineDisk(context.Context) []doctor.Result {
	dirs := []string{s.DataDir}
	if path := s.databaseFile(); path != "" && !contains(s.DataDir, path) {
		dirs = append(dirs, filepath.Dir(path))
	}

	if path, ok := s.blobDir(); ok && !contains(s.DataDir, path) {
		dirs = append(dirs, path)
	}

	var results []doctor.Result
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) { // a hub creates it
			results = append(results, doctor.Disk(dir)...)
		}
	}

	return append(results, s.examineOwners()...)
}

// examineOwners reports directories in the data directory that this user cannot change, such as
// those of a hub that was started by root once.
func (s *Settings) examineOwners() []doctor.Result {
	var paths []string
	if path, ok := s.blobDir(); ok && contains(s.DataDir, path) {
		paths = append(paths, path)
	}

	if s.Deployer == deployProcess {
		paths = append(paths, filepath.Join(s.DataDir, deploymentsDir))
	}

	var results []doctor.Result
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil {
			results = append(results, doctor.Writable(path)...)
		}
	}

	return results
}

// blobDir returns the directory of files of tools and skills, or false if they are in a bucket.
func (s *Settings) blobDir() (string, bool) {
	if s.BlobURL == "" {
		return filepath.Join(s.DataDir, "blobs"), true
	}

	path, ok := strings.CutPrefix(s.BlobURL, "file://")
	return path, ok && path != ""
}

// examineHub reports what listens at the address of the settings.
func (s *Settings) examineHub(ctx context.Context) []doctor.Result {
	host, port, err := net.SplitHostPort(s.Addr)
	if addr, lookup := net.ResolveTCPAddr("tcp", s.Addr); lookup == nil && addr.IP.IsUnspecified() || host == "" {
		host = "localhost" // an unspecified address cannot be called
	}

	if err != nil || port == "0" {
		return nil
	}

	version, err := doctor.Health(ctx, "http://"+net.JoinHostPort(host, port))
	switch {
	case errors.Is(err, doctor.ErrNotHub):
		return doctor.Fail("another program listens at "+s.Addr, "stop it, or set HUB_ADDR")
	case notDialed(err):
		return doctor.Fine("no hub runs at " + s.Addr)
	case err != nil:
		return doctor.Fail("a program listens at "+s.Addr+" and does not respond as a hub: "+err.Error(), "stop it, or set HUB_ADDR; if it is the hub, read its log")
	case version != daemon.Version():
		return doctor.Warn("the hub at "+s.Addr+" has version "+version+", and this program "+daemon.Version(), "restart the hub after an upgrade")
	}

	return doctor.Fine("a hub runs at " + s.Addr)
}

// notDialed reports whether an error is that of a connection that was not made.
func notDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// examineProcesses tries in a temporary directory what the system can do for deployments.
func (s *Settings) examineProcesses(context.Context) []doctor.Result {
	if s.Deployer != deployProcess {
		return nil
	}

	dir, err := os.MkdirTemp("", "hub-doctor-")
	if err != nil {
		return doctor.Fail(err.Error(), "free space in the directory of temporary files, or set TMPDIR")
	}

	defer func() { _ = os.RemoveAll(dir) }()
	driver, err := s.processes(dir)
	if err != nil {
		return doctor.Fail(err.Error(), "set DEPLOYER to docker, kubernetes or none, or correct sandbox.*")
	}

	if reason := driver.Unconfined(); reason != "" {
		return doctor.Warn("process deployments are not completely isolated: "+reason, "see the sandbox in hub/deploy/README.md, or set DEPLOYER=docker")
	}

	if reason := driver.Unlimited(); reason != "" {
		return doctor.Warn(unlimited+": "+reason, "set DEPLOYER to docker or kubernetes")
	}

	return doctor.Fine("processes are isolated")
}

// examined returns the configuration of the hub without the parts that cannot be made, the parts to
// close, and why others are missing.
func (s *Settings) examined(ctx context.Context) (hub.Config, []io.Closer, []doctor.Result) {
	log := slog.New(slog.DiscardHandler)
	var cfg hub.Config
	s.values(&cfg)
	cfg.PublicURL = string(s.PublicURL)
	var faults []doctor.Result
	fault := func(check string, err error, fix string) {
		r := doctor.Fail(err.Error(), fix)[0]
		r.Check = check
		faults = append(faults, r)
	}
	var err error
	cfg.EncryptionKeys, err = s.existingKeys()
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.requireDatabase() != nil: // the first start creates both
	case errors.Is(err, fs.ErrNotExist):
		fault("key", err, "restore the key of this database: without it, its secrets are lost")
	case err != nil:
		fault("key", err, "correct the file or its mode; without the key of this database, its secrets are lost")
	}

	files, err := s.blobsToRead(ctx, log)
	var closers []io.Closer
	if err != nil {
		fault("storage", err, "check BLOB_URL and the permissions of its directory")
	} else {
		cfg.Artifacts, closers = files, append(closers, files)
	}

	if s.Deployer == deployDocker || s.Deployer == deployKubernetes {
		driver, err := s.deployer(log)
		if err != nil {
			fault("deployer", err, "check the settings of DEPLOYER="+s.Deployer)
		} else if cfg.Deployer = driver; driver != nil {
			if c, ok := driver.(io.Closer); ok {
				closers = append(closers, c)
			}
		}
	}

	if cfg.Gateway, err = s.gateway(cfg.Deployer); err != nil {
		cfg.Gateway = nil
		fault("gateway", err, "check GATEWAY_*")
	}

	if id, err := os.ReadFile(filepath.Join(s.DataDir, storageFile)); err == nil && s.Deployer == deployProcess {
		cfg.Machine = machine(strings.TrimSpace(string(id)))
	}

	return cfg, closers, faults
}

// blobsToRead opens the store of files and changes nothing.
func (s *Settings) blobsToRead(ctx context.Context, log *slog.Logger) (Blobs, error) {
	path, ok := s.blobDir()
	if !ok {
		return s.openBlobs(ctx, log)
	}

	files, err := blob.OpenFolderToRead(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing{&blob.Memory{}}, nil // the first file creates it
	}

	return files, err
}

// nothing is a store without files.
type nothing struct{ blob.Driver }

func (nothing) Close() error { return nil }
