package kubernetes

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Labels and annotations. They never change. The full texts are annotations, because labels have at
// most 63 characters.
const (
	labelManager  = "app.kubernetes.io/managed-by" // "agenthost"
	labelOwner    = "agenthost.dev/owner"          // digest
	labelKey      = "agenthost.dev/key"            // digest, with the UID
	labelRevision = "agenthost.dev/revision"
	labelClient   = "agenthost.dev/client" // of pods and namespaces that reach runtimes, "true"
	labelBus      = "agenthost.dev/bus"    // of pods and namespaces that are the bus of the runtimes, "true"

	labelCollector  = "agenthost.dev/collector"  // of pods and namespaces that receive traces of runtimes, "true"
	labelMonitoring = "agenthost.dev/monitoring" // of pods and namespaces that read metrics of runtimes, "true"

	noteOwner   = "agenthost.dev/owner"
	noteKey     = "agenthost.dev/key"
	noteUID     = "agenthost.dev/uid"     // of the deployment; none if a former version created it
	noteStarted = "agenthost.dev/started" // when it was started last
	noteStopped = "agenthost.dev/stopped" // when it was requested to end; "" if it was not
	noteApplied = "agenthost.dev/applied" // the spec, for the comparison with that of the cluster
	noteKeys    = "agenthost.dev/keys"    // of a pod, changed with its Secret
	noteRoute   = "agenthost.dev/route"   // of an HTTPRoute, the deploy.Route
)

const manager = "agenthost"

// The kinds of objects.
var (
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	pods         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	events       = schema.GroupVersionResource{Version: "v1", Resource: "events"}
	volumeClaims = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	policies     = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
)

// object is what the driver knows about an object of the cluster.
type object struct {
	metav1.ObjectMeta `json:"metadata"`

	Drift string `json:"-"` // what of its spec is not as it was applied, or ""
}

// ref returns the deployment of an object.
func (o *object) ref() deploy.Ref {
	return deploy.Ref{Key: o.Annotations[noteKey], UID: o.Annotations[noteUID], Owner: o.Annotations[noteOwner]}
}

func (o *object) revision() int64 {
	n, _ := strconv.ParseInt(o.Labels[labelRevision], 10, 64)
	return n
}

// workload is a Deployment.
type workload struct {
	object `json:",inline"`

	Spec struct {
		Replicas int64 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// service is a Service.
type service struct {
	object `json:",inline"`

	Spec struct {
		ClusterIP       string `json:"clusterIP"`
		PublishNotReady bool   `json:"publishNotReadyAddresses"`
	} `json:"spec"`
}

type pod struct {
	object `json:",inline"`

	Spec struct {
		Containers []struct {
			Resources struct {
				Limits struct {
					Memory string `json:"memory"`
				} `json:"limits"`
			} `json:"resources"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase      string            `json:"phase"`
		PodIP      string            `json:"podIP"`
		Reason     string            `json:"reason"`
		Message    string            `json:"message"`
		Conditions []condition       `json:"conditions"`
		Containers []containerStatus `json:"containerStatuses"`
	} `json:"status"`

	Warning *event `json:"-"` // the last one; only of a pod in the cache
}

// event is an Event of a pod.
type event struct {
	object `json:",inline"`

	About struct {
		UID string `json:"uid"`
	} `json:"involvedObject"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Last    metav1.Time `json:"lastTimestamp"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type containerStatus struct {
	RestartCount int64          `json:"restartCount"`
	State        containerState `json:"state"`
	LastState    containerState `json:"lastState"`
}

type containerState struct {
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Running    *struct{}   `json:"running"`
	Terminated *terminated `json:"terminated"`
}

type terminated struct {
	ExitCode int64  `json:"exitCode"`
	Signal   int64  `json:"signal"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// decode returns an object of the cluster, without the parts that are not used. T is a struct with
// an object.
func decode[T any](u *unstructured.Unstructured) (*T, error) {
	one := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, one); err != nil {
		return nil, fmt.Errorf("decode %s: %w", u.GetKind(), err)
	}

	o := any(one).(interface{ base() *object }).base()
	o.Drift = drift(u)
	o.strip()
	return one, nil
}

func (o *object) base() *object { return o }

// strip removes what the driver does not use, before the object is cached.
func (o *object) strip() {
	m := &o.ObjectMeta
	next := metav1.ObjectMeta{
		Name: strings.Clone(m.Name), Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Labels: map[string]string{}, Annotations: map[string]string{},
	}
	for _, owner := range m.OwnerReferences {
		next.OwnerReferences = append(next.OwnerReferences, metav1.OwnerReference{UID: owner.UID})
	}

	for _, name := range []string{labelOwner, labelKey, labelRevision} {
		if value := m.Labels[name]; value != "" {
			next.Labels[name] = value
		}
	}

	for _, name := range []string{noteOwner, noteKey, noteUID, noteStarted, noteStopped} {
		if value := m.Annotations[name]; value != "" {
			next.Annotations[name] = value
		}
	}

	*m = next
}

// plain returns a value as decoded JSON, in which all numbers have one type, or nil.
func plain(value any) (decoded any) {
	text, err := json.Marshal(value)
	if err != nil || json.Unmarshal(text, &decoded) != nil {
		return nil
	}

	return decoded
}
