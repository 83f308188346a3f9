// Package natsbus connects the replicas of a runtime with NATS: [Open] returns a [run.Bus]. The
// entries of runs are in a JetStream key-value bucket, with a time to live for each, and
// notifications are requests to the subject of a replica. It needs nats-server 2.11 or newer.
//
//	cfg, err := natsbus.Parse("nats://user:password@nats:4222/coder")
//	bus, err := natsbus.Open(ctx, cfg)
//	defer bus.Close()
//	rt, err := runtime.New(ctx, runtime.Config{Agents: agents, Bus: bus})
//
// The bucket is created if it does not exist. One that was created before, for example with several
// replicas in a cluster, is used as it is. It must have a limit marker TTL, a history of 1 and no
// TTL below 5 minutes. Runtimes may share a bucket if each has a scope of its own.
//
// The user of NATS needs permission to publish to $JS.API.STREAM.INFO.KV_<bucket>,
// $JS.API.STREAM.MSG.GET.KV_<bucket>, $KV.<bucket>.>, agenthost.<bucket>.> and
// _INBOX.<bucket>.>, and to subscribe to agenthost.<bucket>.> and _INBOX.<bucket>.>. To create the
// bucket, it also publishes to $JS.API.INFO and $JS.API.STREAM.CREATE.KV_<bucket>.
//
// With a scope, <bucket>.<scope>.> is sufficient in place of <bucket>.>. The server then rejects
// writes to other scopes, and an [Issuer] issues such credentials. Runtimes with one user can
// cancel the runs of each other, whatever their scopes are.
package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	maxEntry  = 512       // bytes
	maxBucket = 256 << 20 // bytes

	connectTimeout = 5 * time.Second
	reconnectWait  = 100 * time.Millisecond
	pingInterval   = 5 * time.Second // a connection without two responses is closed
	writeTimeout   = time.Second     // a connection that does not accept a request is closed

	// markerTTL is the time for which the server stores that an entry has expired or was deleted.
	markerTTL = time.Second

	// minAge is the shortest TTL of a bucket: states of ended runs are stored for as long.
	minAge = 5 * time.Minute
)

// Bus is a connection to NATS.
type Bus struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	bucket  string
	entries string // prefix of the subjects of entries
	owners  string // prefix of the subjects of owners
	read    string // the request that reads an entry
	log     *slog.Logger
}

var _ run.Bus = (*Bus)(nil)

// claim is the JSON of a [run.Claim].
type claim struct {
	Owner  string      `json:"owner"`
	State  wire.State  `json:"state,omitempty"`
	Reason wire.Reason `json:"reason,omitempty"`
}

// The values of an entry. Others are from another program, or from a newer version.
var (
	states  = []wire.State{"", wire.StateCancelling, wire.StateCancelled, wire.StateCompleted, wire.StateFailed}
	reasons = []wire.Reason{"", wire.ReasonClientRequest, wire.ReasonDisconnect, wire.ReasonShutdown}
)

// Open connects to NATS, creates the bucket, and stores an entry in it. It fails if that takes more
// than 5 s, or if a permission is missing: a wrong setting should not be found by the first cancel.
// Afterwards an interrupted connection is restored for as long as the bus is open.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}

	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	ctx, refuse := context.WithCancelCause(ctx) // a request without permission has no response
	defer refuse(nil)
	conn, err := cfg.connect(refuse)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}

	b := &Bus{conn: conn, bucket: cfg.Bucket, log: cfg.Logger}
	b.entries = "$KV." + cfg.part() + "."
	b.owners = "agenthost." + cfg.part() + "."
	b.read = "$JS.API.STREAM.MSG.GET.KV_" + b.bucket
	if b.js, err = jetstream.New(conn); err == nil {
		err = b.open(ctx)
	}

	if err == nil {
		err = b.try(ctx)
	}

	if err != nil {
		conn.Close()
		if cause := context.Cause(ctx); errors.Is(cause, nats.ErrPermissionViolation) {
			err = cause
		}

		return nil, fmt.Errorf("open bucket %s of NATS: %w", b.bucket, err)
	}

	return b, nil
}

// open creates the bucket if it does not exist.
func (b *Bus) open(ctx context.Context) error {
	stream, err := b.js.Stream(ctx, "KV_"+b.bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = b.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: b.bucket, Description: "runs of an agenthost runtime",
			MaxValueSize: maxEntry, MaxBytes: maxBucket, LimitMarkerTTL: markerTTL,
		})
		if err == nil || errors.Is(err, jetstream.ErrBucketExists) { // another replica was faster
			stream, err = b.js.Stream(ctx, "KV_"+b.bucket)
		}
	}

	if err != nil {
		return err
	}

	return check(stream.CachedInfo().Config)
}

// check returns an error if a bucket that was created before does not have the settings of a bus.
func check(bucket jetstream.StreamConfig) error {
	switch {
	case !bucket.AllowMsgTTL || bucket.SubjectDeleteMarkerTTL == 0:
		return errors.New("it has no limit marker TTL, so that its entries cannot expire: create it with --marker-ttl 1s")
	case bucket.MaxMsgsPerSubject != 1:
		return errors.New("it has a history, which would restore entries that were deleted: create it with --history 1")
	case bucket.MaxAge != 0 && bucket.MaxAge < minAge:
		return fmt.Errorf("it has a TTL of %v, less than the %v for which the states of ended runs are stored", bucket.MaxAge, minAge)
	}

	return nil
}

// try stores, reads and deletes an entry, which does not expire before Open ends.
func (b *Bus) try(ctx context.Context) error {
	id := ids.Random()
	e := run.Claim{Owner: id, State: wire.StateCancelling, Reason: wire.ReasonClientRequest}
	revision, err := b.Put(ctx, id, e, connectTimeout)
	if err != nil {
		return err
	}

	if _, err = b.Get(ctx, id); err != nil {
		return err
	}

	return b.Delete(ctx, id, revision)
}

// Close closes the connection.
func (b *Bus) Close() { b.conn.Close() }

// message is the last message of a subject.
type message struct {
	Seq  uint64 `json:"seq"`
	Hdrs []byte `json:"hdrs"` // of a marker; entries have those of their TTL
	Data []byte `json:"data"`
}

// last returns the last message of an entry's subject. It reads from the leader of the stream: the
// other members of a cluster, from which buckets are read by default, may be behind.
func (b *Bus) last(ctx context.Context, id run.ID) (message, error) {
	query, err := json.Marshal(map[string]string{"last_by_subj": b.entries + id.String()})
	var m message
	if err != nil {
		return m, err
	}

	reply, err := b.conn.RequestWithContext(ctx, b.read, query)
	if err != nil {
		return m, b.repair(ctx, err)
	}

	var body struct {
		Message message             `json:"message"`
		Error   *jetstream.APIError `json:"error"`
	}
	if err := jsonlimit.Unmarshal(reply.Data, &body); err != nil {
		return m, fmt.Errorf("decode message: %w", err)
	}

	switch {
	case body.Error == nil:
		return body.Message, nil
	case body.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return m, nil
	}

	return m, b.repair(ctx, body.Error)
}

// repair creates the bucket again if a server without its data has replaced the former one. It
// returns err, after which the caller tries again, and the error of the creation.
func (b *Bus) repair(ctx context.Context, err error) error {
	missing, ok := errors.AsType[*jetstream.APIError](err)
	if ok && missing.ErrorCode == jetstream.JSErrCodeStreamNotFound || errors.Is(err, jetstream.ErrNoStreamResponse) {
		return errors.Join(err, b.open(ctx))
	}

	return err
}

// Get implements [run.Bus].
func (b *Bus) Get(ctx context.Context, id run.ID) (run.Claim, error) {
	m, err := b.last(ctx, id)
	if err != nil {
		return run.Claim{}, fmt.Errorf("read entry: %w", err)
	}

	if len(m.Data) == 0 { // there is no message, or a marker
		return run.Claim{}, nil
	}

	var stored claim
	if err := jsonlimit.Unmarshal(m.Data, &stored); err != nil {
		return run.Claim{Revision: m.Seq}, fmt.Errorf("read entry: %w: %w", run.ErrMalformed, err)
	}

	owner, err := ids.Parse(stored.Owner)
	if err != nil {
		return run.Claim{Revision: m.Seq}, fmt.Errorf("read entry: %w: owner: %w", run.ErrMalformed, err)
	}

	if !slices.Contains(states, stored.State) || !slices.Contains(reasons, stored.Reason) {
		return run.Claim{}, fmt.Errorf("read entry: %w: state %.40q or reason %.40q", run.ErrMalformed, stored.State, stored.Reason)
	}

	return run.Claim{Owner: owner, State: stored.State, Reason: stored.Reason, Revision: m.Seq}, nil
}

// Put implements [run.Bus].
func (b *Bus) Put(ctx context.Context, id run.ID, e run.Claim, ttl time.Duration) (uint64, error) {
	data, err := json.Marshal(claim{e.Owner.String(), e.State, e.Reason})
	if err != nil {
		return 0, fmt.Errorf("store entry: %w", err)
	}

	revision, err := b.put(ctx, id, data, e.Revision, ttl)
	if errors.Is(err, run.ErrChanged) && e.Revision == 0 {
		var m message
		if m, err = b.last(ctx, id); err == nil {
			err = run.ErrChanged
			if len(m.Data) == 0 { // a marker of an expired entry counts as none
				revision, err = b.put(ctx, id, data, m.Seq, ttl)
			}
		}
	}

	if err != nil {
		return 0, fmt.Errorf("store entry: %w", err)
	}

	return revision, nil
}

// put stores a message if the last one of its subject has that revision.
func (b *Bus) put(ctx context.Context, id run.ID, data []byte, revision uint64, ttl time.Duration) (uint64, error) {
	seconds := (ttl + time.Second - 1).Truncate(time.Second) // the unit of the server
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.entries + id.String(), Data: data},
		jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithMsgTTL(max(seconds, time.Second)), jetstream.WithRetryAttempts(0))
	if err == nil {
		return ack.Sequence, nil
	}

	if fault, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch fault.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant: // the second in clusters
			return 0, run.ErrChanged
		}
	}

	return 0, b.repair(ctx, err)
}

// Delete implements [run.Bus].
func (b *Bus) Delete(ctx context.Context, id run.ID, revision uint64) error {
	if _, err := b.put(ctx, id, nil, revision, markerTTL); err != nil {
		return fmt.Errorf("delete entry: %w", err)
	}

	return nil
}

// Notify implements [run.Bus].
func (b *Bus) Notify(ctx context.Context, owner, id run.ID) error {
	if _, err := b.conn.RequestWithContext(ctx, b.owners+owner.String(), []byte(id.String())); err != nil {
		return fmt.Errorf("notify owner: %w", err)
	}

	return nil
}

// Listen implements [run.Bus]. The subscription is restored with the connection.
func (b *Bus) Listen(owner run.ID, notified func(run.ID)) func() {
	sub, err := b.conn.Subscribe(b.owners+owner.String(), func(m *nats.Msg) {
		id, err := ids.Parse(string(m.Data))
		if err != nil {
			return
		}

		notified(id)
		if err := m.Respond(nil); err != nil {
			b.log.Debug("respond to a notification", "err", err)
		}
	})
	if err != nil { // the connection is closed: the owner reads its entries when it renews them
		b.log.Warn("notifications are not received", "err", err)
		return func() {}
	}

	return func() { _ = sub.Unsubscribe() } // it fails only if the connection is closed
}
