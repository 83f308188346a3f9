package hubcmd_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
)

const deployExamples = "../../../examples/deploy"

// settingNames returns the variables that the hub reads, those with files too.
func settingNames() map[string]bool {
	names := map[string]bool{}
	for field := range reflect.TypeOf(hubcmd.Settings{}).Fields() {
		if name := field.Tag.Get("env"); name != "" {
			names[name] = true
			if field.Tag.Get("secret") == "file" {
				names[name+"_FILE"] = true
			}
		}
	}
	return names
}

// The examples set only what the hub reads.
func TestSettingsOfTheDeployExamples(t *testing.T) {
	t.Parallel()
	known := settingNames()
	require.True(t, known["DATABASE_URL_FILE"])
	used := map[string]string{}
	unit, err := os.ReadFile(filepath.Join(deployExamples, "systemd/agenthost-hub.service"))
	require.NoError(t, err)
	env, err := os.ReadFile(filepath.Join(deployExamples, "systemd/hub.env"))
	require.NoError(t, err)
	for _, match := range regexp.MustCompile(`(?m)^(?:Environment=)?([A-Z][A-Z_]+)=`).FindAllStringSubmatch(string(unit)+"\n"+string(env), -1) {
		used[match[1]] = "systemd"
	}
	for name := range node(t, "compose/compose.yaml", 0, "services", "hub", "environment").(map[string]any) {
		used[name] = "compose"
	}
	for _, config := range documents(t, "kubernetes/hub.yaml") {
		if config["kind"] == "ConfigMap" {
			for name := range config["data"].(map[string]any) {
				used[name] = "kubernetes"
			}
		}
	}
	for _, v := range hubContainer(t)["env"].([]any) {
		used[v.(map[string]any)["name"].(string)] = "kubernetes"
	}
	require.Greater(t, len(used), 12)
	for name, file := range used {
		require.True(t, known[name], "%s: the hub has no setting %s", file, name)
	}
}

// The examples agree with the Dockerfile about users, ports, volumes and the names of images.
func TestImagesOfTheDeployExamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../Dockerfile")
	require.NoError(t, err)
	_, target, found := strings.Cut(string(text), "FROM base AS hub\n")
	require.True(t, found)
	value := func(name string) string {
		match := regexp.MustCompile(`(?m)^` + name + ` (\S+)`).FindStringSubmatch(target)
		require.Len(t, match, 2, name)
		return match[1]
	}
	user, group, _ := strings.Cut(value("USER"), ":")
	volume, port := value("VOLUME"), value("EXPOSE")

	compose := node(t, "compose/compose.yaml", 0, "services", "hub").(map[string]any)
	require.Equal(t, []any{"127.0.0.1:8080:" + port}, compose["ports"])
	require.Contains(t, compose["volumes"], "data:"+volume)
	readme, err := os.ReadFile(filepath.Join(deployExamples, "compose/README.md"))
	require.NoError(t, err)
	require.Contains(t, string(readme), "docker build -t "+strings.TrimSuffix(compose["image"].(string), ":latest")+" .")
	require.Contains(t, string(readme), "-t "+strings.TrimSuffix(compose["environment"].(map[string]any)["DEPLOYER_IMAGE"].(string), ":latest")+" .")
	require.Contains(t, string(readme), "chown "+user+" ")

	security := podSpec(t)["securityContext"].(map[string]any)
	require.Equal(t, user, yamlText(t, security["runAsUser"]))
	require.Equal(t, group, yamlText(t, security["runAsGroup"]))
	require.Equal(t, port, yamlText(t, hubContainer(t)["ports"].([]any)[0].(map[string]any)["containerPort"]))
	require.Contains(t, hubContainer(t)["volumeMounts"], map[string]any{"name": "data", "mountPath": volume})
}

func yamlText(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// podSpec returns the pod of the hub.
func podSpec(t *testing.T) map[string]any {
	t.Helper()
	for i, object := range documents(t, "kubernetes/hub.yaml") {
		if object["kind"] == "Deployment" {
			return node(t, "kubernetes/hub.yaml", i, "spec", "template", "spec").(map[string]any)
		}
	}
	require.FailNow(t, "no Deployment")
	return nil
}

func hubContainer(t *testing.T) map[string]any {
	t.Helper()
	return podSpec(t)["containers"].([]any)[0].(map[string]any)
}

// documents returns the YAML documents of an example.
func documents(t *testing.T, file string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(filepath.Join(deployExamples, file))
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for d := yaml.NewDecoder(f); ; {
		var object map[string]any
		if d.Decode(&object) != nil {
			require.NotEmpty(t, all)
			return all
		}
		all = append(all, object)
	}
}

// node returns a value of a document.
func node(t *testing.T, file string, document int, path ...string) any {
	t.Helper()
	var value any = documents(t, file)[document]
	for _, name := range path {
		value = value.(map[string]any)[name]
		require.NotNil(t, value, "%s has no %v", file, path)
	}
	return value
}
