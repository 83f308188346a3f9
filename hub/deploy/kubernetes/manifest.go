package kubernetes

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	user        = 65532
	dataDir     = "/data"
	privateDir  = "/run/agenthost"
	listenPort  = 8080
	metricsPort = 9464
	container   = "runtime"
)

// fields is an object of JSON.
type fields = map[string]any

// manifest describes the objects of a revision.
type manifest struct {
	cfg  *Config
	ref  deploy.Ref
	name string // of each of its objects
	labels,
	notes fields
	owner fields // the reference to the Deployment, which the others end with
}

func (d *Driver) manifest(ref deploy.Ref, revision int64, uid string) manifest {
	m := manifest{cfg: &d.cfg, ref: ref, name: revisionName(ref, revision)}
	m.labels = fields{labelManager: manager, labelOwner: digest(ref.Owner), labelKey: index(ref), labelRevision: strconv.FormatInt(revision, 10)}
	m.notes = fields{noteOwner: ref.Owner, noteKey: ref.Key}
	if ref.UID != "" {
		m.notes[noteUID] = ref.UID
	}

	m.owner = fields{"apiVersion": "apps/v1", "kind": "Deployment", "name": m.name, "uid": uid}
	return m
}

// object returns an object of the revision, whose spec is recorded in it.
func (m manifest) object(kind string, of schema.GroupVersionResource, spec fields) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}

	notes := fields{noteApplied: string(text)}
	maps.Copy(notes, m.notes)
	meta := fields{"name": m.name, "namespace": m.cfg.Namespace, "labels": m.labels, "annotations": notes}
	if kind != "Deployment" {
		meta["ownerReferences"] = []any{m.owner}
	}

	return &unstructured.Unstructured{Object: fields{"apiVersion": of.GroupVersion().String(), "kind": kind, "metadata": meta, "spec": spec}}, nil
}

// deployment returns the Deployment. One with 0 replicas has no effect.
func (m manifest) deployment(replicas int64, req deploy.Request, started time.Time) (*unstructured.Unstructured, error) {
	at := started.UTC().Format(time.RFC3339Nano)
	podNotes := fields{noteStarted: at} // each start has pods of its own
	maps.Copy(podNotes, m.notes)
	o, err := m.object("Deployment", deployments, fields{
		"replicas":             replicas,
		"revisionHistoryLimit": int64(0),
		"strategy":             fields{"type": "Recreate"},
		"selector":             fields{"matchLabels": m.selector()},
		"template":             fields{"metadata": fields{"labels": m.labels, "annotations": podNotes}, "spec": m.pod(req)},
	})
	if err != nil {
		return nil, err
	}

	notes := o.Object["metadata"].(fields)["annotations"].(fields)
	notes[noteStopped] = ""
	notes[noteStarted] = at
	return o, nil
}

// selector selects the pods of the revision.
func (m manifest) selector() fields {
	return fields{labelKey: m.labels[labelKey], labelRevision: m.labels[labelRevision]}
}

// pod returns the spec of the pods.
func (m manifest) pod(req deploy.Request) fields {
	var env []any
	for _, text := range append([]string{"HOME=" + dataDir + "/home", "AGENT_HTTP_API_KEY_FILE=" + privateDir + "/" + agentvalue.DeployedKeys}, m.cfg.Env...) {
		name, value, _ := strings.Cut(text, "=")
		env = append(env, fields{"name": name, "value": value})
	}

	for _, name := range slices.Sorted(maps.Keys(m.cfg.Secrets)) {
		env = append(env, fields{"name": name + "_FILE", "value": privateDir + "/" + name})
	}

	args := []any{
		"--config", privateDir + "/" + agentvalue.DeployedFile, "--addr", fmt.Sprintf("0.0.0.0:%d", listenPort),
		"--drain-timeout", req.RunLimit().String(),
	}
	ports := []any{fields{"name": "http", "containerPort": int64(listenPort), "protocol": "TCP"}}
	if m.cfg.Metrics {
		args = append(args, "--metrics-addr", fmt.Sprintf("0.0.0.0:%d", metricsPort))
		ports = append(ports, fields{"name": "metrics", "containerPort": int64(metricsPort), "protocol": "TCP"})
	}

	probe := func(path string, period, failures int64) fields {
		return fields{
			"httpGet":       fields{"path": path, "port": int64(listenPort), "scheme": "HTTP"},
			"periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": int64(5), "successThreshold": int64(1),
		}
	}
	scratch := func(name string) fields { return fields{"name": name, "emptyDir": fields{"sizeLimit": m.cfg.Scratch}} }
	volumes := []any{
		fields{"name": "request", "secret": fields{"secretName": m.name, "defaultMode": int64(0o440)}},
		scratch("tmp"),
	}
	mounts := []any{
		fields{"name": "request", "mountPath": privateDir, "readOnly": true},
		fields{"name": "tmp", "mountPath": "/tmp"},
	}
	for _, dir := range []string{"work", "home", "state"} {
		mount := fields{"name": "data", "mountPath": dataDir + "/" + dir, "subPath": dir}
		if m.cfg.StorageSize == "" {
			volumes = append(volumes, scratch(dir))
			mount = fields{"name": dir, "mountPath": dataDir + "/" + dir}
		}

		mounts = append(mounts, mount)
	}

	spec := fields{
		"automountServiceAccountToken":  false,
		"enableServiceLinks":            false,
		"restartPolicy":                 "Always",
		"terminationGracePeriodSeconds": seconds(req.RunLimit() + m.cfg.Grace),
		"securityContext": fields{
			"runAsNonRoot": true, "runAsUser": int64(user), "runAsGroup": int64(user), "fsGroup": int64(user),
			"fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": fields{"type": "RuntimeDefault"},
		},
		"containers": []any{fields{
			"name":           container,
			"image":          m.cfg.Image,
			"args":           args,
			"env":            env,
			"ports":          ports,
			"resources":      m.cfg.resources(req.Deployment),
			"volumeMounts":   mounts,
			"livenessProbe":  probe("/health", 10, 6),
			"readinessProbe": probe("/health/ready", 2, 1),
			"securityContext": fields{
				"allowPrivilegeEscalation": false, "privileged": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
				"capabilities": fields{"drop": []any{"ALL"}},
			},
		}},
	}
	if m.cfg.RuntimeClass != "" {
		spec["runtimeClassName"] = m.cfg.RuntimeClass
	}

	if m.cfg.StorageSize != "" {
		volumes = append(volumes, fields{"name": "data", "persistentVolumeClaim": fields{"claimName": commonName(m.ref)}})
		// The volume is one of a node: all pods of the deployment, also of several revisions, are there.
		spec["affinity"] = fields{"podAffinity": fields{"requiredDuringSchedulingIgnoredDuringExecution": []any{fields{
			"labelSelector": fields{"matchLabels": fields{labelKey: m.labels[labelKey]}}, "topologyKey": "kubernetes.io/hostname",
		}}}}
	}

	spec["volumes"] = volumes
	return spec
}

// seconds returns a time as the cluster counts it, at least a second.
func seconds(d time.Duration) int64 { return max(int64(math.Ceil(d.Seconds())), 1) }

// resources returns what a pod may use. Quantities are as the API server writes them.
func (c *Config) resources(wanted agent.Deployment) fields {
	memory := resource.NewQuantity(cmp.Or(wanted.Bytes(), c.Default.Bytes()), resource.BinarySI).String()
	cpu := resource.NewMilliQuantity(cmp.Or(wanted.MilliCPU(), c.Default.MilliCPU()), resource.DecimalSI)
	part := cpu.DeepCopy()
	part.SetMilli(max(part.MilliValue()/10, 1))
	files := resource.MustParse(c.Scratch)
	files.Set(max(files.Value()/10, 1))
	return fields{
		"requests": fields{"memory": memory, "cpu": part.String(), "ephemeral-storage": files.String()},
		"limits":   fields{"memory": memory, "cpu": cpu.String(), "ephemeral-storage": c.Scratch},
	}
}

// replicas returns the number of pods of a runtime.
func (c *Config) replicas(wanted agent.Deployment) int64 {
	return cmp.Or(wanted.Replicas, c.Default.Replicas)
}

// service returns the Service.
func (m manifest) service() (*unstructured.Unstructured, error) {
	return m.object("Service", services, fields{
		"type":     "ClusterIP",
		"selector": m.selector(),
		"ports":    []any{fields{"name": "http", "port": int64(listenPort), "targetPort": int64(listenPort), "protocol": "TCP"}},
		// Stop makes it true: pods that drain are not ready, and have callers that cancel their runs.
		"publishNotReadyAddresses": false,
	})
}

// policy returns the NetworkPolicy: clients reach the port of the runtime, which reaches DNS and
// what is outside of the cluster.
func (m manifest) policy() (*unstructured.Unstructured, error) {
	return m.object("NetworkPolicy", policies, m.rules())
}

// rules returns the spec of the NetworkPolicy.
func (m manifest) rules() fields {
	var outside []any
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		block := fields{"cidr": all}
		var except []any
		for _, p := range m.cfg.Internal {
			if text := p.Masked().String(); p.Addr().Is4() == (all == "0.0.0.0/0") && !slices.Contains(except, any(text)) {
				except = append(except, text)
			}
		}

		if len(except) > 0 {
			block["except"] = except
		}

		outside = append(outside, fields{"ipBlock": block})
	}

	dns := []any{
		fields{
			"namespaceSelector": fields{"matchLabels": fields{"kubernetes.io/metadata.name": "kube-system"}},
			"podSelector":       fields{"matchLabels": fields{"k8s-app": "kube-dns"}},
		},
		fields{"ipBlock": fields{"cidr": "169.254.20.10/32"}}, // of NodeLocal DNSCache
	}
	var dnsPorts []any
	for _, protocol := range []string{"UDP", "TCP"} {
		dnsPorts = append(dnsPorts, fields{"protocol": protocol, "port": int64(53)})
	}

	to := []any{fields{"to": dns, "ports": dnsPorts}, fields{"to": outside}}
	if m.cfg.Bus != nil {
		to = append(to, egress(labelBus, m.cfg.Bus.Servers)...)
	}

	if m.cfg.Collector != "" {
		to = append(to, egress(labelCollector, []string{m.cfg.Collector})...)
	}

	from := []any{admit(labelClient, listenPort)}
	if m.cfg.Metrics {
		from = append(from, admit(labelMonitoring, metricsPort))
	}

	return fields{
		"podSelector": fields{"matchLabels": m.selector()},
		"policyTypes": []any{"Ingress", "Egress"},
		"ingress":     from,
		"egress":      to,
	}
}

// admit returns a rule of a NetworkPolicy that permits connections to a port.
func admit(label string, port int64) fields {
	return fields{"from": labelled(label), "ports": []any{fields{"protocol": "TCP", "port": port}}}
}

// secret returns the Secret.
func (m manifest) secret(req deploy.Request) (*unstructured.Unstructured, error) {
	meta := fields{
		"name": m.name, "namespace": m.cfg.Namespace, "labels": m.labels, "ownerReferences": []any{m.owner},
		"annotations": m.notes,
	}
	o := &unstructured.Unstructured{Object: fields{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta}}
	file := req.File()
	file.CWD, file.StateDir = dataDir+"/work", dataDir+"/state"
	data := fields{agentvalue.DeployedKeys: encoded([]byte(req.Env[deploy.EnvAPIKey]))}
	for name, value := range m.cfg.Secrets {
		data[name] = encoded([]byte(value))
	}

	if bus := m.cfg.Bus; bus != nil {
		files, err := bus.files(m.ref)
		if err != nil {
			return nil, err
		}

		file.Bus = bus.url(m.ref, files)
		for parameter, content := range files {
			data[busFile(parameter)] = encoded(content)
		}
	}

	text, err := yaml.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}

	data[agentvalue.DeployedFile] = encoded(text)
	o.Object["data"] = data
	size := 0
	for _, value := range data {
		size += base64.StdEncoding.DecodedLen(len(value.(string)))
	}

	if size > maxSecret {
		return nil, fmt.Errorf("the configuration of the agent has %d KiB with its keys, and a Secret of Kubernetes at most %d KiB: "+
			"make its prompts and its knowledge shorter", (size+1023)>>10, maxSecret>>10)
	}

	return o, nil
}

// maxSecret bounds the content of a Secret, in bytes: the API server accepts a mebibyte, from which
// SetKeys needs a part for longer keys.
const maxSecret = 1<<20 - 16<<10

func encoded(text []byte) string { return base64.StdEncoding.EncodeToString(text) }

// volumeClaim returns the PersistentVolumeClaim of the deployment.
func (m manifest) volumeClaim() *unstructured.Unstructured {
	spec := fields{
		"accessModes": []any{"ReadWriteOnce"},
		"resources":   fields{"requests": fields{"storage": m.cfg.StorageSize}},
	}
	if m.cfg.StorageClass != "" {
		spec["storageClassName"] = m.cfg.StorageClass
	}

	labels := fields{}
	for name, value := range m.labels {
		if name != labelRevision {
			labels[name] = value
		}
	}

	return &unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": fields{"name": commonName(m.ref), "namespace": m.cfg.Namespace, "labels": labels, "annotations": m.notes},
		"spec":     spec,
	}}
}

// checkEnv returns an error for a variable that the driver does not deliver.
func checkEnv(req deploy.Request) error {
	for name := range req.Env {
		if !slices.Contains([]string{deploy.EnvAPIKey}, name) {
			return fmt.Errorf("the kubernetes deployer has no variable %.100q", name)
		}
	}

	return nil
}
