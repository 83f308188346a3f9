package chat_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
)

// The sessions of a hub that was killed are free when the next one has started on its SQLite file,
// unless another hub is on the file.
func TestLeasesOfAFormerHubEndAtTheStart(t *testing.T) {
	t.Parallel()
	url := sqlite(t)
	first := open(t, url)
	path, another := session(first.ada()), session(first.ada())
	first.orphan(path, "killed", time.Now().Add(25*time.Second).UnixMicro())
	first.orphan(another, "killed", time.Now().Add(25*time.Second).UnixMicro())
	second := open(t, url)
	second.deploy(nil)
	second.ada().Post(path+"/messages", object{"message": "too early"}).Error(http.StatusConflict, wire.Conflict)
	require.NoError(t, second.service.Close())
	require.NoError(t, second.db.Close())
	require.NoError(t, first.service.Close())
	require.NoError(t, first.db.Close())

	third := open(t, url)
	third.deploy(nil)
	require.Equal(t, "completed", last(say(t, third.ada(), path, "more")))
	require.Equal(t, "partial", messages(third.ada(), path)[1]["status"])
	require.Equal(t, "completed", last(say(t, third.ada(), another, "more")))
}

// The answers of a hub continue when another one starts on its SQLite file, after the hub that was
// first on it has ended.
func TestAHubThatStartsDoesNotEndTheAnswersOfAnother(t *testing.T) {
	t.Parallel()
	url := sqlite(t)
	first := open(t, url)
	second := open(t, url)
	second.deploy(endless(t))
	ada := second.ada()
	path := session(ada)
	answer := send(t, ada, path, object{"message": "hello"})
	answer.until("partial_message")
	require.NoError(t, first.service.Close())
	require.NoError(t, first.db.Close())

	third := open(t, url)
	third.endpoint.Store(second.endpoint.Load())
	third.ada().Post(path+"/messages", object{"message": "more"}).Error(http.StatusConflict, wire.Conflict)
	answer.cancel()
	eventually(t, ada, path)
	require.Equal(t, "cancelled", messages(ada, path)[1]["status"])
}

// A hub whose background work has not begun, because the database was locked when it started, has
// answers that another one must not end either.
func TestAHubThatStartsDoesNotEndTheFirstAnswersOfAnother(t *testing.T) {
	t.Parallel()
	url := sqlite(t)
	first := open(t, url, func(c *config) { c.Relay.Offline = true })
	first.deploy(endless(t))
	ada := first.ada()
	path := session(ada)
	answer := send(t, ada, path, object{"message": "hello"})
	answer.until("partial_message")

	second := open(t, url)
	second.endpoint.Store(first.endpoint.Load())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	res, err := http.DefaultClient.Do(second.ada().Request(http.MethodPost, path+"/messages", object{"message": "more"}).WithContext(ctx))
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusConflict, res.StatusCode)
	answer.cancel()
	eventually(t, ada, path)
	require.Equal(t, "cancelled", messages(ada, path)[1]["status"])
}

// A hub that becomes the only one on its SQLite file frees the sessions of the others.
func TestLeasesOfAFormerHubEndLater(t *testing.T) {
	t.Parallel()
	url := sqlite(t)
	first, second := open(t, url), open(t, url)
	path := session(second.ada())
	second.orphan(path, "killed", time.Now().Add(20*time.Second).UnixMicro())
	require.NoError(t, first.service.Close())
	require.NoError(t, first.db.Close())
	require.Eventually(t, func() bool {
		second.exec(`UPDATE chat_runs SET alive_until = $1`, time.Now().Add(20*time.Second).UnixMicro()) // it never passes
		return second.number(`SELECT COUNT(*) FROM chat_runs`) == 0
	}, patience, 20*time.Millisecond)
}
