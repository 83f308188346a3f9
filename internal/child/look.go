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

// Look finds an executable in the PATH of env, the environment that it will run with, not that of this process. A name
// with a separator is answered as it is; a folder of PATH that is relative is passed over, because it would depend on
// where the child runs. Without the executable the error wraps exec.ErrNotFound.
func Look(name string, env []string) (string, error) {
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

// variable answers the last value of a variable, which is the one that counts.
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
