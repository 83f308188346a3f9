package kubernetes_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admission "k8s.io/api/admission/v1"
	webhooks "k8s.io/api/admissionregistration/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

const changedField = "spec.template.spec.terminationGracePeriodSeconds of the Deployment, "

// rewrite makes an admission webhook of the cluster rewrite the Deployments of the namespace.
func (p place) rewrite() {
	p.t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admission.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		kind := admission.PatchTypeJSONPatch
		review.Response = &admission.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: &kind,
			Patch: []byte(`[{"op": "replace", "path": "/spec/template/spec/terminationGracePeriodSeconds", "value": 7}]`),
		}
		_ = json.NewEncoder(w).Encode(review) // the API server may be gone
	}))
	p.t.Cleanup(s.Close)
	path, effects := s.URL+"/", webhooks.SideEffectClassNone
	hooks := p.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := hooks.Create(p.t.Context(), &webhooks.MutatingWebhookConfiguration{
		ObjectMeta: meta.ObjectMeta{Name: p.namespace},
		Webhooks: []webhooks.MutatingWebhook{{
			Name:                    "grace.example.com",
			ClientConfig:            webhooks.WebhookClientConfig{URL: &path, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})},
			NamespaceSelector:       &meta.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": p.namespace}},
			SideEffects:             &effects,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []webhooks.RuleWithOperations{{
				Operations: []webhooks.OperationType{webhooks.Create, webhooks.Update},
				Rule:       webhooks.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}, meta.CreateOptions{})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { require.NoError(p.t, hooks.Delete(context.Background(), p.namespace, meta.DeleteOptions{})) })
}

// control makes a controller of the cluster rewrite the Deployments of the namespace.
func (p place) control() {
	p.t.Helper()
	apps := p.AppsV1().Deployments(p.namespace)
	set := func(o any) {
		if d, ok := o.(meta.Object); ok {
			patch := []byte(`{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`)
			_, _ = apps.Patch(p.t.Context(), d.GetName(), types.StrategicMergePatchType, patch, meta.PatchOptions{FieldManager: "grace-controller"}) // it may be gone
		}
	}
	p.watch("deployments", cache.ResourceEventHandlerFuncs{AddFunc: set, UpdateFunc: func(_, o any) { set(o) }})
}

// watch calls a handler for the objects of the namespace.
func (p place) watch(resource string, handler cache.ResourceEventHandler) {
	p.t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(p.Clientset, 0, informers.WithNamespace(p.namespace))
	informer := factory.Apps().V1().Deployments().Informer()
	if resource == "pods" {
		informer = factory.Core().V1().Pods().Informer()
	}
	_, err := informer.AddEventHandler(handler)
	require.NoError(p.t, err)
	stop := make(chan struct{})
	factory.Start(stop)
	p.t.Cleanup(func() { close(stop); factory.Shutdown() })
}

// Others rewrite a field of each Deployment. The hub does not replace pods without end: it is a
// failure of the deployment, which names the field and its manager.
func TestFieldsThatOthersRewrite(t *testing.T) {
	for name, test := range map[string]struct {
		change func(place)
		want   string
	}{
		"a webhook":    {place.rewrite, "which an admission webhook of the cluster changes"},
		"a controller": {place.control, `which \"grace-controller\" manages`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			test.change(p)
			var pods atomic.Int64
			p.watch("pods", cache.ResourceEventHandlerFuncs{AddFunc: func(any) { pods.Add(1) }})
			h := &hub{t: t, place: p, data: t.TempDir()}
			h.start("kubernetes")
			defer func() { h.stop(syscall.SIGKILL) }()
			h.call("POST", agentPath, `{"name": "helper", "providerId": "demo", "model": "demo"}`)
			h.call("POST", agentPath+"/helper/deploy", "")
			h.reach(`"state":"failed"`)
			_, status := h.send("GET", agentPath+"/helper/deploy", "")
			require.Contains(t, status, "again after each repair: "+changedField+test.want)
			require.LessOrEqual(t, pods.Load(), int64(10))
			require.NotZero(t, pods.Load())
			require.Eventually(t, func() bool { return len(p.pods(key, "")) == 0 }, patience, 50*time.Millisecond, strings.TrimSpace(status))
			h.call("DELETE", agentPath+"/helper/deploy", "")
			p.nothingLeft()
		})
	}
}
