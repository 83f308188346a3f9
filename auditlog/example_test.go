package auditlog_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/auditlog/memaudit"
)

// RoleChange is the detail of user.update_role.
type RoleChange struct {
	Role auditlog.Change[string] `json:"role"`
}

func clock() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 600000000, time.UTC) }

func Example() {
	updateRole := auditlog.Define[RoleChange]("user.update_role")
	ctx, log := context.Background(), new(memaudit.Store)

	event := auditlog.Event{TenantID: "default", UserID: "1", UserName: "alice", TargetType: "user", TargetID: "2", TargetName: "bob"}
	if err := log.Append(ctx, updateRole.Record(event, RoleChange{auditlog.Change[string]{From: "member", To: "admin"}})); err != nil {
		fmt.Println(err)
	}

	page, err := log.Query(ctx, auditlog.Query{TenantID: "default", Filter: auditlog.Filter{User: "ALI"}, Limit: 20})
	if err != nil {
		fmt.Println(err)
	}
	for _, e := range page.Items {
		fmt.Println(e.ID, e.UserName, e.Action, e.TargetName, e.Status, string(e.Detail))
	}
	// Output: 1 alice user.update_role bob success {"role":{"from":"member","to":"admin"}}
}

func ExampleDefine() {
	// An action without a detail.
	logout := auditlog.Define[auditlog.None]("auth.logout")
	fmt.Println(logout.Name())

	// A detail that could hold anything is refused.
	defer func() { fmt.Println(recover()) }()
	auditlog.Define[struct{ Fields map[string]any }]("user.update")
	// Output:
	// auth.logout
	// auditlog: define action user.update: detail struct { Fields map[string]interface {} }.Fields: a map can have arbitrary contents
}

func ExampleQuery() {
	logout := auditlog.Define[auditlog.None]("auth.logout")
	ctx, log := context.Background(), new(memaudit.Store)
	write := func() { _ = log.Append(ctx, logout.Record(auditlog.Event{TenantID: "default"}, auditlog.None{})) }
	for range 4 {
		write()
	}

	q := auditlog.Query{TenantID: "default", Limit: 2}
	for {
		page, err := log.Query(ctx, q)
		if err != nil || len(page.Items) == 0 {
			break
		}
		fmt.Println(page.Items[0].ID, page.Items[1].ID, "of", page.Total)
		write() // which changes no page of this view

		q.Snapshot = &page.Snapshot
		q.Offset += 2
	}
	// Output:
	// 4 3 of 4
	// 2 1 of 4
}

func ExampleHandlers() {
	logout := auditlog.Define[auditlog.None]("auth.logout")
	log := &memaudit.Store{Now: clock}
	_ = log.Append(context.Background(), logout.Record(auditlog.Event{TenantID: "default", UserName: "alice"}, auditlog.None{}))

	h := auditlog.Handlers{
		Store:  log,
		Tenant: func(*http.Request) string { return "default" }, // from the caller's login
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			if param, ok := errors.AsType[*auditlog.ParamError](err); ok {
				http.Error(w, "Falscher Parameter: "+param.Param, http.StatusBadRequest)
				return
			}
			http.Error(w, "Interner Fehler", http.StatusInternalServerError)
		},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /audit-logs", h.Query)
	mux.HandleFunc("GET /audit-logs/export", h.Export)
	mux.HandleFunc("GET /audit-logs/verify", h.Verify)

	for _, target := range []string{"/audit-logs?user=ALI&page_size=5", "/audit-logs?page=0"} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, target, http.NoBody))
		fmt.Print(answer.Code, " ", answer.Body)
	}
	// Output:
	// 200 {"items":[{"id":"1","tenantId":"default","userId":"","userName":"alice","category":"auth","action":"auth.logout","targetType":"","targetId":"","targetName":"","status":"success","detail":null,"remoteIp":"","userAgent":"","createdAt":"2026-01-02T03:04:05.600000Z"}],"total":1,"snapshotId":"1"}
	// 400 Falscher Parameter: page
}

func ExampleVerify() {
	logout := auditlog.Define[auditlog.None]("auth.logout")
	ctx, log := context.Background(), &memaudit.Store{Now: clock}
	record := logout.Record(auditlog.Event{TenantID: "default", UserName: "alice"}, auditlog.None{})
	_ = log.Append(ctx, record, record)
	noted, _ := log.Head(ctx, "default") // stored where the writers of the log have no access

	_ = log.Append(ctx, record)
	v, err := auditlog.Verify(ctx, log, "default", noted)
	fmt.Println(v.OK, v.Checked, err)
	// Output: true 3 <nil>
}

func ExampleEntry_AppendNDJSON() {
	logout := auditlog.Define[auditlog.None]("auth.logout")
	ctx, log := context.Background(), &memaudit.Store{Now: clock}
	_ = log.Append(ctx, logout.Record(auditlog.Event{TenantID: "default", UserName: "alice"}, auditlog.None{}))

	for e, err := range log.Entries(ctx, "default", auditlog.Filter{Category: "auth"}, nil) {
		if err != nil {
			break
		}
		line, _ := e.AppendNDJSON(nil)
		_, _ = os.Stdout.Write(line)
	}
	// Output:
	// {"id":"1","tenantId":"default","userId":"","userName":"alice","category":"auth","action":"auth.logout","targetType":"","targetId":"","targetName":"","status":"success","detail":null,"remoteIp":"","userAgent":"","createdAt":"2026-01-02T03:04:05.600000Z","hash":"6701518ac4c4c5892aefb66e53b3dffab585eed5c68a48f5e4f4e43dd6e23bbc"}
}

func ExampleStore_prune() {
	logout := auditlog.Define[auditlog.None]("auth.logout")
	pruneAudit := auditlog.Define[auditlog.Pruning]("auth.prune_audit")
	ctx, now := context.Background(), clock()
	log := &memaudit.Store{Now: func() time.Time { return now }}
	for range 3 {
		_ = log.Append(ctx, logout.Record(auditlog.Event{TenantID: "default"}, auditlog.None{}))
		now = now.Add(24 * time.Hour)
	}

	deleted, _ := log.Prune(ctx, "default", 36*time.Hour, pruneAudit)
	v, _ := auditlog.Verify(ctx, log, "default")
	fmt.Println(deleted, v.OK, v.FirstID, v.HeadID, "of which the last records the pruning")
	// Output: 2 true 3 4 of which the last records the pruning
}
