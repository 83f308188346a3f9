// Package relay has the answers in progress of chats: each is one run of a deployed agent, whose
// events go to the client and whose text goes to the database.
//
//	answer, err := r.Start(ctx, run, relay.Start{Endpoint: endpoint, Store: write, History: history})
//	if err != nil { ... }
//	defer answer.Close()
//	err = answer.Serve(w)
//
// An [Answer] is the only owner of its state. The text is stored while it arrives, each time that
// it has grown by a quarter, so that a hub that is killed loses at most a fifth of it. An answer
// that is stored as partial is in progress, or was in progress when its hub was killed.
//
// A session has at most one answer in progress, also with several hubs on one database: the row of
// the run names its hub. A hub whose run another one has ended stores nothing more, except the
// answer of a run that has completed, in place of a partial one.
// While the database is unavailable, ended answers are held in memory until they are stored.
//
// A runtime is not trusted. It may send 256 MiB for one answer, in events of at most about 4 MiB;
// 4 MiB of them are stored. Config limits the time until it accepts a run, between two parts of an
// answer, and of the whole answer.
package relay

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime/client"
)

// Deployments returns the runtimes of agents. *deployment.Service implements it.
type Deployments interface {
	// Endpoint fails with code.AgentNotDeployed if the agent is not deployed, and with
	// wire.NotFound if the tenant has no such agent.
	Endpoint(ctx context.Context, tenantID, agentName string) (deployment.Endpoint, error)

	// Replicas returns the URLs of the processes of a deployment if each has conversations of its
	// own. They accept the API key of the endpoint.
	Replicas(ctx context.Context, key string) ([]string, error)
}

// Config configures [New].
type Config struct {
	// Store has a database with the migrations of hub/internal/chat applied, and has joined.
	// Required.
	Store *store.Store

	// Deployments are those of the agents. Required.
	Deployments Deployments

	// Usage counts the tokens of the runs. Defaults to none.
	Usage *usage.Service

	// ModelOf returns the names of an agent's provider and model. Defaults to none, so that
	// failures have no remedies.
	ModelOf func(ctx context.Context, tenantID, agentName string) (string, string, error)

	// Saved is called with the bytes of an answer that has ended and is stored. Defaults to none.
	Saved func(run AnswerRun, bytes int)

	// Approvers returns who approves the calls of an agent: owner, maintainer or admin. It excludes a
	// change of that until the transaction ends. Defaults to the owner.
	Approvers func(ctx context.Context, tx *sql.Tx, tenantID, agentName string) (string, error)

	// OpenTimeout bounds the time in which a runtime accepts a run. Defaults to 30 s.
	OpenTimeout time.Duration

	// IdleTimeout bounds the time in which a runtime sends nothing, not even a comment, which it
	// sends every 15 s. Defaults to 60 s.
	IdleTimeout time.Duration

	// RunTimeout bounds the time of an answer. Defaults to 2 h.
	RunTimeout time.Duration

	// EndTimeout bounds the time for which the end of a cancelled run is awaited, which has its
	// usage. Defaults to 5 s.
	EndTimeout time.Duration

	// WriteTimeout bounds the time in which a client must read 64 KiB of an answer. Defaults to
	// 30 s.
	WriteTimeout time.Duration

	// SaveEvery is the least time between two writes of an answer in progress. Defaults to 1 s.
	SaveEvery time.Duration

	// StoreTimeout bounds a transaction that stores answers, and the time for which the last events
	// wait for it. Defaults to 10 s.
	StoreTimeout time.Duration

	// Offline is for commands, which may run next to a hub on the database: the background work is
	// that of the hub. Defaults to false.
	Offline bool

	// UserAnswers and AgentAnswers are the answers that may be in progress at once for a user and
	// for an agent, in all hubs. Default to 20 and 200.
	UserAnswers, AgentAnswers int
}

// The answers in progress at once for a user and for an agent, of a Config that has none.
const (
	UserAnswers  = 20
	AgentAnswers = 200
)

// Relay relays the answers of one hub. It is safe for concurrent use.
type Relay struct {
	cfg           Config
	store         *store.Store
	http          *http.Client // of all runtimes
	memory        *budget      // of answers
	journalMemory *budget
	readers       *budget // of what is sent to readers of events
	files         *budget // of images and files until a runtime has them
	metrics       *metrics
	wake          chan struct{} // has an element if there are ended answers to store
	deleted       chan struct{} // has an element if there are transcripts to delete

	stopSave, stop context.CancelFunc
	saving         sync.WaitGroup
	sweeping       sync.WaitGroup
	owners         sync.WaitGroup // of answers that continue
	draining       chan struct{}  // closed by Drain

	mu       sync.Mutex // guards the fields below
	closed   bool
	open     sync.WaitGroup     // the answers from enter to leave; Add needs mu
	answers  map[string]*Answer // by the id of the run, until their ends are stored
	journals journals
	ended    []*Answer // whose ends are to be stored
	unsaved  int       // answers that have ended, until their ends are stored
}

// New returns a Relay. The caller must call Close.
func New(cfg Config) (*Relay, error) {
	if cfg.Store == nil || cfg.Deployments == nil {
		return nil, errors.New("create relay: Store and Deployments are required")
	}

	cfg.OpenTimeout = cmp.Or(cfg.OpenTimeout, 30*time.Second)
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, time.Minute)
	cfg.EndTimeout = cmp.Or(cfg.EndTimeout, 5*time.Second)
	cfg.RunTimeout = cmp.Or(cfg.RunTimeout, 2*time.Hour)
	cfg.UserAnswers = cmp.Or(cfg.UserAnswers, UserAnswers)
	cfg.AgentAnswers = cmp.Or(cfg.AgentAnswers, AgentAnswers)
	cfg.SaveEvery = cmp.Or(cfg.SaveEvery, time.Second)
	cfg.StoreTimeout = cmp.Or(cfg.StoreTimeout, writeWithin)
	transport := outbound.Transport()
	r := &Relay{
		cfg: cfg, store: cfg.Store, memory: newBudget(maxMemory), journalMemory: newBudget(maxJournalMemory), readers: newBudget(maxReaderMemory), files: newBudget(maxFileMemory),
		// A client without a cookie jar, which follows no redirect: see package runtime/client.
		http: &http.Client{Transport: outbound.Traced(transport)},
		wake: make(chan struct{}, 1), deleted: make(chan struct{}, 1), draining: make(chan struct{}), answers: map[string]*Answer{},
		journals: journals{byRun: map[string]*journal{}, byTenant: map[string]int{}},
	}
	var err error
	if r.metrics, err = newMetrics(r); err != nil {
		return nil, fmt.Errorf("create relay: %w", err)
	}

	save, stopSave := context.WithCancel(context.Background())
	sweep, stop := context.WithCancel(context.Background())
	r.stopSave, r.stop = stopSave, stop
	r.saving.Go(func() { r.save(save) })
	if !cfg.Offline {
		r.sweeping.Go(func() { r.sweep(sweep) })
	}

	return r, nil
}

// Drain ends the streams of answers that other hubs relay, whose readers continue at another hub,
// and waits until no answer is in progress.
func (r *Relay) Drain(ctx context.Context) error {
	r.mu.Lock()
	select {
	case <-r.draining:
	default:
		close(r.draining)
	}

	r.mu.Unlock()
	for {
		r.mu.Lock()
		all := slices.Collect(maps.Values(r.answers))
		r.mu.Unlock()
		if len(all) == 0 {
			return nil
		}

		select {
		case <-all[0].done:
		case <-ctx.Done():
			return fmt.Errorf("wait for answers, %d of which are in progress: %w", len(all), context.Cause(ctx))
		}
	}
}

// Draining returns a channel that Drain closes.
func (r *Relay) Draining() <-chan struct{} { return r.draining }

// Reject rejects further answers.
func (r *Relay) Reject() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// Shutdown cancels the answers in progress with the reason shutdown, and waits until they are
// stored or ctx ends. Further answers are rejected.
func (r *Relay) Shutdown(ctx context.Context) {
	r.mu.Lock()
	r.closed = true
	all := slices.Collect(maps.Values(r.answers))
	r.mu.Unlock()
	for _, a := range all {
		a.cancel(errShutdown)
	}

	for _, a := range all {
		select {
		case <-a.done:
		case <-ctx.Done():
			return
		}
	}
}

// Close cancels the answers in progress, waits until they are stored, and ends the background work.
func (r *Relay) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	r.Shutdown(ctx)
	r.open.Wait()
	r.owners.Wait()
	r.stopSave()
	r.saving.Wait()
	r.stop()
	r.sweeping.Wait()
	r.metrics.stop()
	r.http.CloseIdleConnections()
	return nil
}

// maxUnsaved is the number of answers that have ended and are not stored, from which no further
// ones begin. The memory of all is bounded in addition.
const maxUnsaved = 2000

// ErrRelayed is returned by [Relay.Start] if this hub relays the answer of the run.
var ErrRelayed = errors.New("the answer of the run is in progress")

// enter adds an answer that begins.
func (r *Relay) enter(a *Answer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return &wire.Error{Code: wire.Unavailable, Message: "The hub shuts down: try again."}
	case r.answers[a.run.ID] != nil:
		return ErrRelayed
	case r.unsaved >= maxUnsaved:
		return &wire.Error{Code: wire.Unavailable, RetryAfter: limitedFor, Message: "The database takes no answers at present: try again."}
	}

	r.open.Add(1)
	r.answers[a.run.ID] = a
	delete(r.journals.byRun, a.run.ID) // of an attempt that no runtime accepted
	if a.journal != nil {
		r.journals.byRun[a.run.ID] = a.journal
	}

	return nil
}

// remove removes an answer whose end is stored or cannot be.
func (r *Relay) remove(a *Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.answers, a.run.ID)
	if a.end != nil {
		r.unsaved--
	}

	endSpan(a)
	close(a.done)
}

// find returns the answer of a run, or nil if this hub neither relays nor stores it.
func (r *Relay) find(runID string) *Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers[runID]
}

// Has reports whether this hub relays the answer of a run, or stores its end.
func (r *Relay) Has(runID string) bool { return r.find(runID) != nil }

// cancelWithin bounds the call of a runtime.
const cancelWithin = 5 * time.Second

// Cancel cancels the answer in progress of a session, or only the one of the run, which may be
// relayed by another hub. It returns the id of the run. One that no hub relays ends immediately, or
// when its hub has been removed. It fails with wire.Conflict if there is none.
func (r *Relay) Cancel(ctx context.Context, tenantID, sessionKey, runID string) (string, error) {
	var found Lease
	err := r.store.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
		found, err = requestCancel(ctx, tx, tenantID, sessionKey, runID)
		return err
	})
	if err != nil {
		return "", err
	}

	return found.RunID, r.Requested(ctx, found)
}

// Requested cancels a run whose cancel was requested.
func (r *Relay) Requested(ctx context.Context, l Lease) error {
	if (l.free || l.HubID == r.store.HubID) && !r.Has(l.RunID) {
		if _, err := r.endRun(ctx, l, r.store.HubID); err != nil {
			return err
		}
	}

	r.CancelRun(ctx, l.TenantID, l.AgentName, l.RunID)
	return nil
}

// CancelRun cancels a run in its runtime. If that fails, because the run is not there yet or the
// runtime does not respond, the hub that relays the answer closes the connection: this one
// immediately, another within a second.
func (r *Relay) CancelRun(ctx context.Context, tenantID, agentName, runID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWithin)
	defer cancel()
	runtime, err := r.runtimeOf(ctx, tenantID, agentName)
	if err == nil {
		_, err = runtime.Cancel(ctx, runID)
	}

	if a := r.find(runID); err != nil && a != nil {
		a.cancel(errCancelled)
	}
}

// runtimeOf returns the client of the runtime of an agent.
func (r *Relay) runtimeOf(ctx context.Context, tenantID, agentName string) (*client.Client, error) {
	endpoint, err := r.cfg.Deployments.Endpoint(ctx, tenantID, agentName)
	if err != nil {
		return nil, err
	}

	return r.client(endpoint, nil)
}

// client returns the client of a runtime. reserve reserves memory for its events, or is nil.
func (r *Relay) client(e deployment.Endpoint, reserve func(bytes int) error) (*client.Client, error) {
	c, err := client.New(client.Config{BaseURL: e.URL, APIKey: string(e.APIKey), HTTPClient: r.http, Reserve: reserve})
	if err != nil {
		return nil, wrongAddress(err)
	}

	return c, nil
}

func wrongAddress(err error) error {
	return &wire.Error{Code: code.UpstreamFailed, Message: "The address of the agent's runtime is invalid.", Cause: err}
}
