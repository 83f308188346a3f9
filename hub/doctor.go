package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/doctor"
	"github.com/seed93082962/agenthost/internal/secret"
)

// Diagnose checks the installation of a configuration and returns what is wrong with it and how to
// fix it: the database, its keys, the files, the deployer, the gateway, the clock and the public
// address. A part that the configuration does not have is not checked. It changes nothing, and hubs
// may serve in the meantime.
func Diagnose(ctx context.Context, cfg Config) []doctor.Result {
	x := &examined{cfg: cfg}
	checks := []doctor.Check{
		{Name: "gateway", Do: x.gateway},
		{Name: "deployer", Do: x.deployer},
		{Name: "address", Do: x.address},
	}
	var unopened []doctor.Result
	if x.db, unopened = openToRead(ctx, cfg); unopened != nil {
		fault := func(context.Context) []doctor.Result { return unopened }
		return doctor.Run(ctx, append([]doctor.Check{{Name: "database", Do: fault}}, checks...)...)
	}

	defer func() { _ = x.db.Close() }() // it has only read
	results := doctor.Run(ctx, doctor.Check{Name: "database", Within: 10 * time.Minute, Do: x.integrity})
	if doctor.Failed(results) == 0 { // otherwise, its migrations cannot be judged
		results = append(doctor.Run(ctx, doctor.Check{Name: "database", Do: x.database}), results...)
	}

	if x.db.Migrated(ctx, migrations()...) == nil { // otherwise, tables may be missing
		checks = append([]doctor.Check{
			{Name: "key", Within: time.Minute, Do: x.keys},
			{Name: "storage", Within: 5 * time.Minute, Do: x.storage},
			{Name: "clock", Do: x.clock},
			{Name: "prices", Do: x.prices},
			{Name: "budgets", Do: x.budgets},
			{Name: "machine", Do: x.machine},
		}, checks...)
	}

	return append(results, doctor.Run(ctx, checks...)...)
}

// openToRead returns the database, or why it cannot be opened.
func openToRead(ctx context.Context, cfg Config) (*db.DB, []doctor.Result) {
	// SQLite opens a file that cannot be written, and leaves a log behind that has the mode of it:
	// no hub could open the database then.
	if path, ok := strings.CutPrefix(cfg.DatabaseURL, "sqlite://"); ok {
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			if _, err := os.Stat(name); err == nil {
				if denied := doctor.Writable(name); denied != nil {
					return nil, denied
				}
			}
		}
	}

	d, err := db.Open(ctx, db.Config{URL: cfg.DatabaseURL, MaxConns: 2, ReadOnly: true, Logger: cfg.Logger})
	if err != nil {
		return nil, unopened(cfg.DatabaseURL, err)
	}

	return d, nil
}

// unopened explains the error of a database that cannot be opened.
func unopened(url string, err error) []doctor.Result {
	engine, _ := db.EngineOf(url)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return doctor.Fail("the database does not exist", "set HUB_DATA_DIR or DATABASE_URL; the first start of the hub creates one")
	case errors.Is(err, db.ErrUnavailable) && engine == db.PostgreSQL:
		return doctor.Fail(err.Error(), "start the database; check the host, the user and the password of DATABASE_URL, and the network")
	}

	return doctor.Fail(err.Error(), "check DATABASE_URL, the permissions of the file and its directory, and that their file system can be written; "+
		"if the file is damaged, restore a backup")
}

// examined is an installation.
type examined struct {
	cfg Config
	db  *db.DB
}

func (x *examined) database(ctx context.Context) []doctor.Result {
	if err := x.db.Ping(ctx); err != nil {
		return doctor.Fail(err.Error(), "set DATABASE_URL to a server that accepts writes")
	}

	err := x.db.Migrated(ctx, migrations()...)
	switch {
	case errors.Is(err, db.ErrPending):
		return doctor.Warn("migrations have to be applied", "make a backup with the former version, and start the hub of this version")
	case errors.Is(err, db.ErrNewer):
		return doctor.Fail(err.Error(), "install a newer version of the hub, or restore a backup of this one")
	case err != nil:
		return doctor.Fail(err.Error(), "install the version of the hub that migrated this database")
	}

	return doctor.Fine(string(x.db.Engine()) + ", with all migrations of this version")
}

// integrity reads the whole SQLite file. PostgreSQL checks its own files.
func (x *examined) integrity(ctx context.Context) []doctor.Result {
	if x.db.Engine() != db.SQLite {
		return nil
	}

	const fix = "stop the hub, keep a copy of the file, and restore a backup; check the disk"
	found, err := db.Value[string](ctx, x.db.Read(), "check file", "PRAGMA quick_check(1)")
	if err != nil {
		return doctor.Fail(err.Error(), fix)
	}

	if found != "ok" {
		return doctor.Fail("the file is damaged: "+found, fix)
	}

	return doctor.Fine("the file is not damaged")
}

func (x *examined) keys(ctx context.Context) []doctor.Result {
	const fix = "set PROVIDER_ENCRYPTION_KEY to the key of this database; after a new one, separated by a comma, if there is one"
	if len(x.cfg.EncryptionKeys) == 0 {
		return nil
	}

	keyring, err := secret.Parse(x.cfg.EncryptionKeys...)
	if err != nil {
		return doctor.Fail(err.Error(), fix)
	}

	ids, err := store.KeyIDs(ctx, x.db.Read(), sealed()...)
	if err != nil {
		return doctor.Fail(err.Error(), "see the check of the database")
	}

	var results []doctor.Result
	for _, id := range ids {
		if !keyring.Has(id) {
			results = append(results, doctor.Fail("secrets are encrypted with the key "+id+", which is not configured", fix)...)
		}
	}

	if len(results) > 0 {
		return results
	}

	if len(ids) > 1 {
		return doctor.Warn(fmt.Sprintf("secrets are encrypted with %d keys", len(ids)), "run hub rekey when all replicas have the new key first, and then remove the former one")
	}

	return doctor.Fine("the key of all secrets is configured")
}

// storage compares the files that rows name with those that exist.
func (x *examined) storage(ctx context.Context) []doctor.Result {
	if x.cfg.Artifacts == nil {
		return nil
	}

	named, err := namedArtifacts(ctx, x.db.Read())
	if err != nil {
		return doctor.Fail(err.Error(), "see the check of the database")
	}

	exist := map[string]bool{}
	for _, kind := range []artifact.Purpose{artifact.Tools, artifact.Skills} {
		for info, err := range x.cfg.Artifacts.List(ctx, string(kind)+"/") {
			if err != nil {
				return doctor.Fail(err.Error(), "check BLOB_URL: the directory and its permissions, or the bucket, the region and the credentials")
			}

			exist[info.Key] = true
		}
	}

	var missing []string
	for _, key := range named {
		if !exist[key] {
			missing = append(missing, key)
		}
	}

	if len(missing) > 0 {
		return doctor.Fail(fmt.Sprintf("%d of %d files are missing, such as %s", len(missing), len(named), missing[0]),
			"set BLOB_URL to the store that has them, restore a backup, or upload them again")
	}

	return doctor.Fine(fmt.Sprintf("all %d files of tools, skills and deployments exist", len(named)))
}

// prices reports models that cost nothing because they have no price.
func (x *examined) prices(ctx context.Context) []doctor.Result {
	models, err := usage.Unpriced(ctx, x.db.Read(), x.cfg.Prices, x.now())
	if err != nil {
		return doctor.Fail(err.Error(), "see the check of the database")
	}

	if len(models) == 0 {
		return nil
	}

	return doctor.Warn(fmt.Sprintf("%d models of the last 30 days have no price, such as %q: their runs cost 0, and budgets in cost do not limit them", len(models), models[0]),
		"set their prices in usage.prices")
}

// budgets reports that budgets of users do not limit runs at /runtime, which have no user.
func (x *examined) budgets(ctx context.Context) []doctor.Result {
	n, err := usage.LimitedUsers(ctx, x.db.Read())
	if err != nil {
		return doctor.Fail(err.Error(), "see the check of the database")
	}

	if n == 0 {
		return nil
	}

	return doctor.Warn(fmt.Sprintf("the budgets of %d users do not limit runs at /runtime, which have no user", n), "give the agents budgets too")
}

// now returns the time of the clock of the configuration.
func (x *examined) now() time.Time {
	if x.cfg.Now == nil {
		return time.Now()
	}

	return x.cfg.Now()
}

// maxSkew is the difference of clocks at which leases of replicas and limits of logins are wrong.
const maxSkew = 2 * time.Second

// clock compares the clock of this machine with that of the database, and with the newest entries
// of the audit log.
func (x *examined) clock(ctx context.Context) []doctor.Result {
	const fix = "synchronize the clocks of this machine and the database, with NTP"
	if x.db.Engine() == db.PostgreSQL {
		before := x.now()
		micros, err := db.Value[int64](ctx, x.db.Read(), "read clock of database", `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`)
		if err != nil {
			return doctor.Fail(err.Error(), "see the check of the database")
		}

		if there := db.Time(micros); there.Before(before.Add(-maxSkew)) || there.After(x.now().Add(maxSkew)) {
			return doctor.Fail(fmt.Sprintf("the clock of the database differs by %v", there.Sub(before).Round(time.Second)), fix)
		}
	}

	micros, err := db.Value[int64](ctx, x.db.Read(), "read newest audit entry", `SELECT COALESCE(MAX(at), 0) FROM audit_heads`)
	if err != nil {
		return doctor.Fail(err.Error(), "see the check of the database")
	}

	if ahead := db.Time(micros).Sub(x.now()); ahead > time.Minute {
		return doctor.Fail(fmt.Sprintf("the newest audit entry is %v in the future", ahead.Round(time.Second)), fix+"; entries in the future are pruned late")
	}

	return doctor.Fine("the clock agrees with the database")
}

// machine reports deployments that hubs on this machine do not reach.
func (x *examined) machine(ctx context.Context) []doctor.Result {
	if x.cfg.Machine == "" {
		return nil
	}

	n, err := db.Value[int](ctx, x.db.Read(), "count deployments", `SELECT COUNT(*) FROM deployments WHERE machine NOT IN ('', $1)`, x.cfg.Machine)
	if err != nil {
		return doctor.Fail(err.Error(), "see the check of the database")
	}

	if n > 0 {
		return doctor.Fail(fmt.Sprintf("%d deployments are processes of another machine or data directory", n),
			"start the hub there; or, if that machine is gone, run hub adopt")
	}

	return nil
}

// probeOwner is an owner without deployments and routes.
const probeOwner = "doctor"

func (x *examined) deployer(ctx context.Context) []doctor.Result {
	if x.cfg.Deployer == nil {
		return nil
	}

	backend := x.cfg.Deployer.Backend()
	if _, err := x.cfg.Deployer.List(ctx, probeOwner); err != nil {
		return doctor.Fail(backend+": "+err.Error(), "check the settings of DEPLOYER="+backend+", and that its platform responds and permits the hub to list")
	}

	return doctor.Fine(backend + " responds")
}

func (x *examined) gateway(ctx context.Context) []doctor.Result {
	if x.cfg.Gateway == nil {
		return nil
	}

	if g, ok := x.cfg.Gateway.(interface{ CloseIdleConnections() }); ok {
		defer g.CloseIdleConnections()
	}

	if _, err := x.cfg.Gateway.Routes(ctx, probeOwner); err != nil {
		return doctor.Fail(strings.Join(chain(err), ": "), "check GATEWAY_ADMIN_URL, GATEWAY_ADMIN_KEY, and that the admin interface can be reached from here")
	}

	return doctor.Fine("the admin interface of the gateway responds")
}

// chain returns the text of an error and of what it wraps, which the text may not contain.
func chain(err error) []string {
	var texts []string
	for ; err != nil; err = errors.Unwrap(err) {
		if n := len(texts); n == 0 || !strings.Contains(texts[n-1], err.Error()) {
			texts = append(texts, err.Error())
		}
	}

	return texts
}

func (x *examined) address(ctx context.Context) []doctor.Result {
	if x.cfg.PublicURL == "" {
		return nil
	}

	return doctor.PublicURL(ctx, x.cfg.PublicURL, len(x.cfg.TrustedProxies) > 0)
}
