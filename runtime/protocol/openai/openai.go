// Package openai serves the agents of a [Host] with the protocol of OpenAI, so that programs that
// speak Chat Completions or Responses can use an agent as a model. The id of the agent is the name
// of the model.
//
//	cfg.Protocols = map[string]func(*runtime.Runtime) http.Handler{
//		"/openai/v1": func(rt *runtime.Runtime) http.Handler {
//			return openai.New(openai.Config{Host: rt})
//		},
//	}
//	rt, err := runtime.New(ctx, cfg)
//
// The prompt, the model, the tools, the permissions and the limits are those of the agent. The
// README of runtime has a table with what a client may set.
package openai

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Host has the agents and their runs. [runtime.Runtime] is one. The context is that of the request,
// in which a host with users finds who sent it.
//
// If an error has a method Rejection() (status int, body wire.ErrorBody), the client receives this
// status and the text of the body. Other errors are internal: the log has them. If it has a method
// RetryAfter() time.Duration, the response has the header Retry-After.
//
// If the host has a method RunTalk, that executes the runs of Chat Completions, whose clients carry
// their conversations: it is Run with the turns of the request, of which the last one is the
// message of the run, or has its answers, and with what identifies the user of the client, or "".
type Host interface {
	// Agents returns the agents that the caller may use.
	Agents(ctx context.Context) ([]wire.AgentSummary, error)

	// Run executes a run, and yields its events or one error. An event is valid until the next one.
	// The end of the loop or of ctx cancels the run.
	Run(ctx context.Context, agentID string, req wire.RunRequest) iter.Seq2[wire.Event, error]

	// Transcript returns the entries of a stored conversation after a seq, at most limit of them. An
	// unknown conversation is rejected with status 404.
	Transcript(ctx context.Context, sessionID string, after int64, limit int) (wire.Transcript, error)

	// DeleteSession deletes a stored conversation. An unknown one is no error.
	DeleteSession(ctx context.Context, sessionID string) error

	// Cancel cancels a run. A run that has ended or is unknown is ignored.
	Cancel(ctx context.Context, runID string) error

	// Active reports whether a run is in progress, at this server or another one.
	Active(ctx context.Context, runID string) (bool, error)

	// Reserve reserves memory of a request, or releases it if bytes is negative.
	Reserve(bytes int) error
}

// Config configures [New]. All fields except Host have defaults.
type Config struct {
	Host Host

	// MaxBytes bounds the body of a request. Defaults to 4 MiB.
	MaxBytes int64

	// Retains means that the host stores each conversation unless the request has store: false, which
	// RunRequest.Store reports, and deletes the others itself. Defaults to false: a conversation is
	// stored if its response can be continued.
	Retains bool

	// Heartbeat and WriteTimeout are those of [sse.StreamConfig]. They default to 15 s and 30 s.
	Heartbeat, WriteTimeout time.Duration

	// MaxBackground bounds the background responses in progress. Defaults to 100.
	MaxBackground int

	// MaxSockets bounds the WebSocket connections. Defaults to 1,000.
	MaxSockets int

	// SocketIdle is the time without a request and a response after which a WebSocket connection is
	// closed. SocketLife is the time after which it accepts no further request. They default to 10 and
	// 60 minutes.
	SocketIdle, SocketLife time.Duration

	// Logger receives internal errors. Defaults to none.
	Logger *slog.Logger
}

// New returns the handler of the protocol. Its paths begin after the base URL of the clients:
// /models, /chat/completions and /responses. It does not authenticate and writes no access log: the
// server that mounts it does. Its method Fail(w, r, err) responds with an error in the form of the
// protocol. Its method Close() error cancels background responses, closes WebSocket connections and
// waits for them.
func New(cfg Config) http.Handler {
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 4<<20)
	cfg.MaxBackground = cmp.Or(cfg.MaxBackground, 100)
	cfg.MaxSockets = cmp.Or(cfg.MaxSockets, 1000)
	cfg.SocketIdle = cmp.Or(cfg.SocketIdle, 10*time.Minute)
	cfg.SocketLife = cmp.Or(cfg.SocketLife, time.Hour)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := &server{cfg: cfg, background: map[string]*background{}}
	s.life, s.end = context.WithCancel(context.Background())
	shell := &httpapi.Shell{Logger: cfg.Logger, Fail: s.Fail}
	router := shell.Router()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		router.Handle(method, "/models", shell.Handle(s.listModels))
		router.Handle(method, "/models/:model", shell.Handle(s.showModel))
	}

	router.POST("/chat/completions", shell.Handle(s.completeChat))
	router.POST("/responses", shell.Handle(s.createResponse))
	router.GET("/responses", shell.Handle(s.openSocket))
	router.POST("/responses/:response", shell.Handle(s.compactResponse)) // only /responses/compact
	router.POST("/responses/:response/cancel", shell.Handle(s.cancelResponse))
	router.GET("/responses/:response", shell.Handle(s.showResponse))
	router.DELETE("/responses/:response", shell.Handle(s.deleteResponse))
	s.Handler = router
	return s
}

type server struct {
	http.Handler
	cfg Config

	life    context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup // background responses and connections
	sockets atomic.Int64

	mu         sync.Mutex             // guards the fields below
	background map[string]*background // by the id of the run
	active     int                    // of these, in progress
}

// Close ends what does not end with its request.
func (s *server) Close() error {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.background {
		s.forget(b)
	}

	return nil
}

// modelList is the body of GET /models.
type modelList struct {
	Object string      `json:"object"` // list
	Data   []modelBody `json:"data"`
}

// modelBody describes an agent as a model. Agents have no time of creation.
type modelBody struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // model
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (s *server) models(ctx context.Context) ([]modelBody, error) {
	agents, err := s.cfg.Host.Agents(ctx)
	list := []modelBody{}
	for _, a := range agents {
		if a.Status == "ready" {
			list = append(list, modelBody{ID: a.ID, Object: "model", OwnedBy: "agenthost"})
		}
	}

	return list, err
}

// listModels handles GET /models. Agents that are unavailable are not listed.
func (s *server) listModels(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	list, err := s.models(r.Context())
	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, modelList{Object: "list", Data: list})
}

// showModel handles GET /models/:model.
func (s *server) showModel(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	list, err := s.models(r.Context())
	if err != nil {
		return err
	}

	for _, m := range list {
		if m.ID == ps.ByName("model") {
			return httpapi.WriteJSON(w, http.StatusOK, m)
		}
	}

	return &failure{status: http.StatusNotFound, message: "there is no agent with this id", param: "model", code: codeModel}
}
