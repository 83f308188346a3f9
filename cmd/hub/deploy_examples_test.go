package main_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	hub "github.com/seed93082962/agenthost/cmd/hub"
)

const deployExamples = "../../examples/deploy"

// settingNames returns the variables that the hub reads, those with files too.
func settingNames() map[string]bool {
	names := map[string]bool{}
	for field := range reflect.TypeOf(hub.Settings{}).Fields() {
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
	require.Greater(t, len(used), 5)
	for name, file := range used {
		require.True(t, known[name], "%s: the hub has no setting %s", file, name)
	}
}

// The examples agree with the Dockerfile about users, ports, volumes and the names of images.
func TestImagesOfTheDeployExamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	_, target, found := strings.Cut(string(text), "FROM base AS hub\n")
	require.True(t, found)
	value := func(name string) string {
		match := regexp.MustCompile(`(?m)^` + name + ` (\S+)`).FindStringSubmatch(target)
		require.Len(t, match, 2, name)
		return match[1]
	}
	user, _, _ := strings.Cut(value("USER"), ":")
	volume, port := value("VOLUME"), value("EXPOSE")

	compose := node(t, "compose/compose.yaml", 0, "services", "hub").(map[string]any)
	require.Equal(t, []any{"127.0.0.1:8080:" + port}, compose["ports"])
	require.Contains(t, compose["volumes"], "data:"+volume)
	readme, err := os.ReadFile(filepath.Join(deployExamples, "compose/README.md"))
	require.NoError(t, err)
	require.Contains(t, string(readme), "docker build -t "+strings.TrimSuffix(compose["image"].(string), ":latest")+" .")
	require.Contains(t, string(readme), "-t "+strings.TrimSuffix(compose["environment"].(map[string]any)["DOCKER_IMAGE"].(string), ":latest")+" .")
	require.Contains(t, string(readme), "chown "+user+" ")
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
