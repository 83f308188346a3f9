package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// LookPath finds an executable in the PATH of env, the environment of the child. It returns a name
// with a separator unchanged. Relative directories of PATH are skipped, since they depend on the
// working directory of the child. If there is no such executable, the error wraps exec.ErrNotFound.
func LookPath(name string, env []string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("find executable: no name: %w", exec.ErrNotFound)
	}
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}
	endings := []string{""}
	if runtime.GOOS == "windows" {
		endings = []string{".com", ".exe", ".bat", ".cmd", ""}
	}
	for _, dir := range filepath.SplitList(variable(env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, ending := range endings {
			path := filepath.Join(dir, name+ending)
			if executable(path) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("find executable %q: %w", name, exec.ErrNotFound)
}

// variable returns the last value of a variable, which overrides the earlier ones.
func variable(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		key, value, _ := strings.Cut(entry, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0)
}
