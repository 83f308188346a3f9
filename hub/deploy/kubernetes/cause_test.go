package kubernetes_test

import (
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
)

type object = map[string]any

// store adds the objects of a revision to lists by their resources, with a pod in a state.
func store(lists map[string][]any, all []*unstructured.Unstructured, uid string, status object) {
	for _, o := range all[:4] {
		o.Object["metadata"].(object)["uid"] = o.GetKind() + uid
		kind := strings.ToLower(o.GetKind()) + "s"
		if kind == "networkpolicys" {
			kind = "networkpolicies"
		}
		lists[kind] = append(lists[kind], o.Object)
	}
	template := all[0].Object["spec"].(object)["template"].(object)
	meta := object{"name": all[0].GetName() + "-x", "uid": "pod" + uid, "ownerReferences": []any{}}
	for name, value := range template["metadata"].(object) {
		meta[name] = value
	}
	if status != nil {
		lists["pods"] = append(lists["pods"], object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"], "status": status})
	}
}

// serveLists responds to a list with the objects of its resource.
func serveLists(lists map[string][]any, w http.ResponseWriter, r *http.Request) bool {
	all, found := lists[path.Base(r.URL.Path)]
	if !found || r.URL.Query().Get("watch") == "true" {
		return false
	}
	respond(w, http.StatusOK, object{"apiVersion": "v1", "kind": "List", "metadata": object{"resourceVersion": "1"}, "items": all})
	return true
}

// warning is an Event of the pod of a test.
func warning(name, reason, message, at string) any {
	return object{
		"apiVersion": "v1", "kind": "Event", "metadata": object{"name": name, "uid": name}, "type": "Warning", "lastTimestamp": at,
		"involvedObject": object{"kind": "Pod", "uid": "pod1"}, "reason": reason, "message": message,
	}
}

// The states of a kubelet and of a scheduler are causes for the user.
func TestCauses(t *testing.T) {
	t.Parallel()
	container := func(state, last object, restarts int) object {
		return object{"phase": "Running", "containerStatuses": []any{object{"name": "runtime", "restartCount": restarts, "state": state, "lastState": last}}}
	}
	waiting := func(reason, message string) object {
		return object{"waiting": object{"reason": reason, "message": message}}
	}
	ended := func(code int, reason, message string) object {
		return object{"terminated": object{"exitCode": code, "reason": reason, "message": message}}
	}
	running := object{"running": object{}}
	creating := container(waiting("ContainerCreating", ""), nil, 0)
	backOff := waiting("CrashLoopBackOff", "back-off 10s restarting failed container=runtime pod=x")
	for name, test := range map[string]struct {
		pod       object // its status, or nil without a pod
		app       object // the status of the Deployment
		events    []any
		phase     deploy.Phase
		want      string
		preparing bool
		memory    string // of the agent
	}{
		"running":                        {pod: container(running, nil, 0), phase: deploy.Running},
		"ran out of memory":              {pod: container(ended(137, "OOMKilled", ""), nil, 0), phase: deploy.Exited, want: "it needed more memory than its limit of 256Mi"},
		"ran out of its own memory":      {memory: "64Mi", pod: container(ended(137, "OOMKilled", ""), nil, 0), phase: deploy.Exited, want: "it needed more memory than its limit of 64Mi"},
		"ran out of memory, and waits":   {pod: container(backOff, ended(137, "OOMKilled", ""), 3), phase: deploy.Exited, want: "it needed more memory than its limit of 256Mi"},
		"ran out of memory, runs again":  {pod: container(running, ended(137, "OOMKilled", ""), 1), phase: deploy.Exited, want: "it needed more memory than its limit of 256Mi"},
		"crash loop":                     {pod: container(backOff, ended(3, "Error", ""), 4), phase: deploy.Exited, want: "exit status 3"},
		"crash loop with a message":      {pod: container(backOff, ended(1, "Error", "agents.yaml: no agent"), 4), phase: deploy.Exited, want: "agents.yaml: no agent"},
		"ended without an error":         {pod: container(ended(0, "Completed", ""), nil, 0), phase: deploy.Exited, want: "exit status 0"},
		"cannot be executed":             {pod: container(ended(128, "StartError", "exec: no such file"), nil, 0), phase: deploy.Exited, want: "exec: no such file"},
		"image not found":                {pod: container(waiting("ErrImagePull", "not found"), nil, 0), phase: deploy.Running, want: "the image agenthost-runtime:1 cannot be pulled: not found"},
		"image name invalid":             {pod: container(waiting("InvalidImageName", ""), nil, 0), phase: deploy.Running, want: "the image agenthost-runtime:1 cannot be pulled"},
		"user is root":                   {pod: container(waiting("CreateContainerConfigError", "image will run as root"), nil, 0), phase: deploy.Running, want: "CreateContainerConfigError: image will run as root"},
		"image is pulled":                {pod: creating, phase: deploy.Running, want: "the node prepares its pod", preparing: true},
		"image is pulled, after a crash": {pod: container(waiting("ContainerCreating", ""), ended(1, "Error", ""), 1), phase: deploy.Exited, want: "exit status 1"},
		"failed mount": {
			pod: creating, phase: deploy.Running, want: `a volume cannot be mounted: MountVolume.SetUp failed: secret "x" not found`,
			events: []any{
				warning("b", "FailedMount", `MountVolume.SetUp failed: secret "x" not found`, "2026-01-02T03:04:06Z"),
				warning("a", "FailedScheduling", "0/1 nodes are available", "2026-01-02T03:04:05Z"),
			},
		},
		"no network":                    {pod: creating, phase: deploy.Running, want: "FailedCreatePodSandBox: no address", events: []any{warning("a", "FailedCreatePodSandBox", "no address", "2026-01-02T03:04:05Z")}},
		"failed mount, and then it ran": {pod: container(running, nil, 0), phase: deploy.Running, events: []any{warning("a", "FailedMount", "x", "2026-01-02T03:04:05Z")}},
		"a long event":                  {pod: creating, phase: deploy.Running, want: "xxx", events: []any{warning("a", "FailedMount", strings.Repeat("x", 1<<20), "2026-01-02T03:04:05Z")}},
		"no room": {
			pod:   object{"phase": "Pending", "conditions": []any{object{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient memory."}}},
			phase: deploy.Running, want: "no node has room for it: 0/3 nodes are available: 3 Insufficient memory.",
		},
		"quota": {
			app:   object{"conditions": []any{object{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": `pods "x" is forbidden: exceeded quota: small, requested: limits.memory=1Gi`}}},
			phase: deploy.Running, want: "the quota of the namespace is used up: small, requested: limits.memory=1Gi",
		},
		"evicted": {
			pod: object{"phase": "Failed", "reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. "}, phase: deploy.Exited,
			want: "its node has evicted it, as it does with a pod that has more than 2Gi of files: Pod ephemeral local storage usage exceeds the total limit of containers 2Gi",
		},
		"rejected": {
			app:   object{"conditions": []any{object{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "pods is forbidden: violates PodSecurity"}}},
			phase: deploy.Running, want: "the cluster rejects its pods: pods is forbidden: violates PodSecurity",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := map[string][]any{"events": test.events, "pods": {}}
			s := server(t, func(w http.ResponseWriter, r *http.Request) bool { return serveLists(lists, w, r) })
			d := open(t, s.URL, func(c *kubernetes.Config) { c.Default.Memory = "256Mi" })
			req := request()
			req.Deployment.Memory = test.memory
			all, err := d.Objects(ref, 1, req, time.Now())
			require.NoError(t, err)
			if test.app != nil {
				all[0].Object["status"] = test.app
			}
			store(lists, all, "1", test.pod)
			o, err := d.Observe(t.Context(), ref)
			require.NoError(t, err)
			r := o.Runtime(1)
			require.Equal(t, test.phase, r.Phase)
			require.Equal(t, test.preparing, r.Preparing)
			require.Less(t, len(r.Message), 2000)
			if test.want == "" {
				require.Empty(t, r.Message)
			}
			require.Contains(t, r.Message, test.want)
		})
	}
}
