package chat_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

func TestSessionsBelongToTheirUser(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		own := ada.Post(sessions, object{"title": " A plan "}).Want(http.StatusCreated)
		require.Equal(t, "A plan", own["title"])
		require.Equal(t, "id-ada", own["userId"])
		require.Equal(t, "ada", own["userName"])
		require.Equal(t, "hub", own["source"])
		require.Nil(t, own["lastMessageAt"])
		path := sessions + "/" + own["id"].(string)
		require.Equal(t, []object{own}, ada.Get(sessions).Items())
		require.Empty(t, ada.Get(path+"/messages").Items())

		ada.Post("/api/v1/agents/idle/chat/sessions", nil).Want(http.StatusCreated) // not deployed
		require.Len(t, ada.Get(sessions).Items(), 1)
		for _, other := range []string{"acme/max/admin", "acme/meg/member", "zeta/ada/admin", "zeta/ada/member"} {
			part := strings.Split(other, "/")
			c := s.As(part[0], part[1], rbac.Role(part[2]))
			require.Empty(t, c.Get(sessions).Items())
			c.Get(path+"/messages").Error(http.StatusNotFound, wire.NotFound)
			c.Post(path+"/messages", object{"message": "hi"}).Error(http.StatusNotFound, wire.NotFound)
			c.Post(path+"/cancel", nil).Error(http.StatusNotFound, wire.NotFound)
			c.Delete(path).Error(http.StatusNotFound, wire.NotFound)
			if part[0] == "zeta" || part[2] == "member" {
				c.Get(admin+"/"+own["id"].(string)).Error(http.StatusNotFound, wire.NotFound)
				c.Get(admin+"/"+own["id"].(string)+"/messages").Error(http.StatusNotFound, wire.NotFound)
				c.Delete(admin+"/"+own["id"].(string)).Error(http.StatusNotFound, wire.NotFound)
			}
		}
		ada.Get(strings.Replace(path, "helper", "idle", 1)+"/messages").Error(http.StatusNotFound, wire.NotFound)
		ada.Post(sessions, object{"title": strings.Repeat("t", 201)}).Error(http.StatusBadRequest, wire.ValidationFailed)
		for _, gone := range []string{"/api/v1/agents/nobody/chat/sessions", sessions} {
			s.disabled.Store(true)
			ada.Get(gone).Error(http.StatusNotFound, wire.NotFound)
			ada.Post(gone, nil).Error(http.StatusNotFound, wire.NotFound)
		}
		s.disabled.Store(false)
		s.As("acme", "ada", "").Get(sessions).Error(http.StatusUnauthorized, wire.Unauthenticated)
	})
}

func TestDeletedSessions(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada, boss := s.ada(), s.As("acme", "max", rbac.Maintainer)
		first, second, third := session(ada), session(ada), session(ada)
		say(t, ada, first, "A secret message")
		ada.Delete(first).Want(http.StatusNoContent)
		ada.Delete(first).Error(http.StatusNotFound, wire.NotFound)
		ada.Get(first+"/messages").Error(http.StatusNotFound, wire.NotFound)
		ada.Delete(strings.Replace(second, sessions, admin, 1)).Want(http.StatusNoContent)
		boss.Delete(strings.Replace(third, sessions, admin, 1)).Want(http.StatusNoContent)
		require.Empty(t, ada.Get(sessions).Items())
		require.Equal(t, []string{
			`agent.delete_chat helper {"owner":"ada","source":"hub","messages":2}`,
			`agent.delete_chat helper {"owner":"ada","source":"hub","messages":0}`,
			`agent.delete_chat helper {"owner":"ada","source":"hub","messages":0}`,
		}, s.Audit("acme"))
		var n int
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM chat_messages`).Scan(&n))
		require.Zero(t, n)
	})
}

func TestAdministratorsSeeAllSessionsOfTheTenant(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ada, meg, boss := s.ada(), s.As("acme", "meg_1", rbac.Member), s.As("acme", "max", rbac.Admin)
		hers := session(ada)
		say(t, ada, hers, "hello\nand more")
		other := session(meg)
		s.As("zeta", "ada", rbac.Member).Post(sessions, nil).Want(http.StatusCreated)
		of := func(query string) (owners []string) {
			for _, item := range boss.Get(admin + query).Items() {
				owners = append(owners, item["userName"].(string))
			}
			return owners
		}
		require.Equal(t, []string{"meg_1", "ada"}, of(""), "the latest change first")
		require.Equal(t, []string{"ada"}, of("?user=ID-AD&agent=helper&source=hub"))
		require.Equal(t, []string{"meg_1"}, of("?user=g_1"))
		require.Empty(t, of("?user=g%251"))
		require.Empty(t, of("?agent=idle"))
		require.Empty(t, of("?source=push"))
		require.Empty(t, of("?to=2020-01-01T00:00:00Z"))
		require.Empty(t, of("?from="+time.Now().Add(time.Hour).Format(time.RFC3339)))
		require.Empty(t, of("?from=2100-01-01T00:00:00Z&to=2000-01-01T00:00:00Z"))
		require.Len(t, of("?from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&user=&agent=&source="), 2)
		for _, bad := range []string{"from=yesterday", "to=1", "source=mail", "page=0", "user=%zz", "user=%00"} {
			boss.Get(admin+"?"+bad).Error(http.StatusBadRequest, wire.InvalidRequest)
		}
		require.Len(t, ada.Get(admin).Items(), 1, "a member sees only its own")
		path := strings.Replace(hers, sessions, admin, 1)
		require.Equal(t, "hello", boss.Get(path).Want(http.StatusOK)["title"])
		require.Equal(t, messages(ada, hers), boss.Get(path+"/messages").Items())
		require.Equal(t, messages(ada, hers), ada.Get(path+"/messages").Items())
		boss.Get(path+"?user=id-meg_1").Error(http.StatusNotFound, wire.NotFound)
		ada.Get(strings.Replace(other, sessions, admin, 1)).Error(http.StatusNotFound, wire.NotFound)
	})
}

func TestMessagesArePaged(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		ada := s.ada()
		path := session(ada)
		for i := range 3 {
			say(t, ada, path, fmt.Sprint("message ", i))
		}
		all := messages(ada, path)
		require.Len(t, all, 6)
		for i, m := range all {
			require.EqualValues(t, i+1, m["seq"])
		}
		body := ada.Get(path + "/messages?page=2&page_size=4").Want(http.StatusOK)
		require.EqualValues(t, 6, body["total"])
		require.Equal(t, []any{any(all[4]), any(all[5])}, body["items"])
		require.Empty(t, ada.Get(path+"/messages?page=3&page_size=4").Items())
		require.Empty(t, ada.Get(path+"/messages?page=1000000000000").Items())
	})
}

// Of two concurrent calls that delete a session, one finds none.
func TestConcurrentDeletions(t *testing.T) {
	t.Parallel()
	s := open(t, postgres(t))
	ada := s.ada()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req := ada.Request(http.MethodDelete, session(ada), nil).WithContext(ctx)
	status := make(chan int, 1)
	require.NoError(t, s.db.Tx(t.Context(), func(tx *sql.Tx) error {
		require.NoError(t, db.Exec(t.Context(), tx, "delete", `DELETE FROM chat_sessions`))
		go func() {
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				close(status)
				return
			}
			_ = res.Body.Close()
			status <- res.StatusCode
		}()
		s.awaitLock()
		return nil
	}))
	require.Equal(t, http.StatusNotFound, <-status)
	require.Empty(t, s.Audit("acme"))
}
