package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// A caller has eight large responses at once. Another one waits for two seconds.
func TestLargeResponsesOfACaller(t *testing.T) {
	for name, row := range map[string]struct {
		path     string
		owner    []string // headers
		other    []string
		waits    bool // before the handler runs
		finished bool // with the end of the first response
	}{
		"declared by the route":      {"/large", []string{"Authorization", "Bearer member-token"}, []string{"Authorization", "Bearer admin-token"}, true, false},
		"and one ends in time":       {"/large", []string{"Authorization", "Bearer member-token"}, []string{"Authorization", "Bearer admin-token"}, true, true},
		"JSON of more than 64 KiB":   {"/json", []string{"Authorization", "Bearer member-token"}, []string{"Authorization", "Bearer admin-token"}, false, false},
		"without a user":             {"/open", nil, []string{"X-Forwarded-For", "198.51.100.7"}, true, false},
		"taken by the handler":       {"/own", nil, []string{"X-Forwarded-For", "198.51.100.7"}, true, false},
		"an error after the share":   {"/fails", []string{"Authorization", "Bearer member-token"}, []string{"Authorization", "Bearer admin-token"}, true, true},
		"an error that is JSON also": {"/own", nil, []string{"X-Forwarded-For", "198.51.100.7"}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				running := 0
				gate := make(chan struct{})
				wait := func(http.ResponseWriter, *http.Request) error {
					running++
					<-gate
					return nil
				}
				h := handler(t, func(c *api.Config) { c.TrustedProxies = trusted },
					api.Route{Method: "GET", Path: "/large", Access: api.SignedIn, Large: true, Handle: wait},
					api.Route{Method: "GET", Path: "/open", Access: api.Open, Large: true, Handle: wait},
					api.Route{Method: "GET", Path: "/fails", Access: api.SignedIn, Large: true, Handle: func(w http.ResponseWriter, r *http.Request) error {
						_ = wait(w, r)
						return wire.Conflict
					}},
					api.Route{Method: "GET", Path: "/own", Access: api.Open, Handle: func(w http.ResponseWriter, r *http.Request) error {
						for range 2 { // the second has no effect
							if err := api.TakeLarge(r); err != nil {
								return err
							}
						}
						return wait(w, r)
					}},
					api.Route{Method: "GET", Path: "/json", Access: api.SignedIn, Handle: func(w http.ResponseWriter, r *http.Request) error {
						return api.Encode(w, http.StatusOK, strings.Repeat("x", 64<<10))
					}},
					api.Route{Method: "GET", Path: "/small", Access: api.SignedIn, Handle: func(w http.ResponseWriter, r *http.Request) error {
						return api.Encode(w, http.StatusOK, "small")
					}})
				begin := func(headers ...string) <-chan *httptest.ResponseRecorder {
					done := make(chan *httptest.ResponseRecorder, 1)
					r := httptest.NewRequest("GET", row.path, nil)
					for i := 0; i < len(headers); i += 2 {
						r.Header.Set(headers[i], headers[i+1])
					}
					go func() {
						w := httptest.NewRecorder()
						h.ServeHTTP(&stalled{w, gate, &running, row.path == "/json"}, r)
						done <- w
					}()
					synctest.Wait()
					return done
				}
				var first []<-chan *httptest.ResponseRecorder
				for range 8 {
					first = append(first, begin(row.owner...))
				}
				require.Equal(t, 8, running)
				began := time.Now()
				ninth := begin(row.owner...)
				require.Equal(t, 8, running)
				if row.finished {
					gate <- struct{}{}
					synctest.Wait()
					require.Equal(t, 9, running)
				} else {
					w := <-ninth
					require.Equal(t, http.StatusTooManyRequests, w.Code, w.Body)
					require.Equal(t, wire.RateLimited, wire.Code(faultOf(t, w).Code))
					require.Equal(t, "2", w.Header().Get("Retry-After"))
					require.Equal(t, 2*time.Second, time.Since(began))
				}
				before := running
				begin(row.other...)
				require.Equal(t, before+1, running)
				require.Equal(t, 200, send(h, "GET", "/small", "", "Authorization", "Bearer member-token").Code)
				close(gate)
				for _, done := range first {
					<-done
				}
				synctest.Wait()
				for range 20 {
					<-begin(row.owner...)
				}
				require.Equal(t, before+21, running, "the places are free again")
			})
		})
	}
}

var trusted = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // of httptest.NewRequest

// stalled is a client that does not read while the gate is closed.
type stalled struct {
	*httptest.ResponseRecorder
	gate    chan struct{}
	running *int
	stalls  bool
}

func (w *stalled) Write(p []byte) (int, error) {
	if w.stalls && w.Code == http.StatusOK {
		w.stalls = false
		*w.running++
		<-w.gate
	}
	return w.ResponseRecorder.Write(p)
}

// The requests that wait are bounded, and end with their clients.
func TestRequestsThatWaitForLargeResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		h := handler(t, nil, api.Route{Method: "GET", Path: "/", Access: api.SignedIn, Large: true, Handle: func(http.ResponseWriter, *http.Request) error {
			<-gate
			return nil
		}})
		ctx, leave := context.WithCancel(t.Context())
		codes := make(chan int, 1000)
		for range 1000 {
			go func() {
				r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
				r.Header.Set("Authorization", "Bearer member-token")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				codes <- w.Code
			}()
		}
		synctest.Wait()
		require.Len(t, codes, 1000-8-64)
		leave()
		synctest.Wait()
		require.Len(t, codes, 1000-8)
		close(gate)
		synctest.Wait()
		require.Len(t, codes, 1000)
	})
}

// The users of one tenant have 32 large responses together, and all tenants 128: a request above
// the share of its tenant is 429, and one above that of the process 503.
func TestLargeResponsesOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		running := 0
		h := handler(t, func(c *api.Config) {
			c.Authenticate = func(r *http.Request) (api.Caller, error) {
				tenant, user, _ := strings.Cut(api.Bearer(r), ".")
				return api.Caller{TenantID: tenant, UserID: user, RoleNow: rbac.Member}, nil
			}
		}, api.Route{Method: "GET", Path: "/", Access: api.SignedIn, Large: true, Handle: func(http.ResponseWriter, *http.Request) error {
			running++
			<-gate
			return nil
		}})
		begin := func(tenant, user string) <-chan int {
			code := make(chan int, 1)
			go func() { code <- send(h, "GET", "/", "", "Authorization", "Bearer "+tenant+"."+user).Code }()
			synctest.Wait()
			return code
		}
		for _, tenant := range []string{"a", "b", "c", "d"} {
			for _, user := range []string{"1", "2", "3", "4"} {
				for range 8 {
					begin(tenant, user)
				}
			}
			if tenant == "a" {
				require.Equal(t, 32, running)
				require.Equal(t, http.StatusTooManyRequests, <-begin(tenant, "5"))
			}
		}
		require.Equal(t, 128, running)
		require.Equal(t, http.StatusServiceUnavailable, <-begin("e", "1"))
		close(gate)
		synctest.Wait()
		require.Equal(t, http.StatusOK, <-begin("e", "1"))
		require.Equal(t, http.StatusOK, <-begin("a", "5"))
	})
}
