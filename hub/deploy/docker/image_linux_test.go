//go:build docker

package docker_test

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/moby/moby/client"
)

// build builds a command of this module as it is shipped, and returns its path.
func build(name string) (string, error) {
	path := filepath.Join(scratch, name)
	cmd := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", path, "github.com/seed93082962/agenthost/cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

var library = regexp.MustCompile(`/\S+`)

// importImage creates the image of the tests.
func importImage() error {
	runtime, err := build("runtime")
	if err != nil {
		return err
	}
	libraries, err := exec.CommandContext(context.Background(), "ldd", "/bin/bash").Output()
	if err != nil {
		return fmt.Errorf("find libraries of bash: %w", err)
	}
	files := map[string]string{"/usr/local/bin/runtime": runtime, "/bin/bash": "/bin/bash"}
	for _, path := range library.FindAllString(string(libraries), -1) {
		files[path] = path
	}
	return importFiles(runtimeImage, files, `ENTRYPOINT ["/usr/local/bin/runtime"]`)
}

// importFiles creates an image of files, by their paths in it.
func importFiles(image string, files map[string]string, changes ...string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(w, files)) }()
	c, err := newClient()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	progress, err := c.ImageImport(context.Background(), client.ImageImportSource{Source: r, SourceName: "-"}, image,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	_, err = io.Copy(io.Discard, progress)
	return err
}

// pack writes files to an archive, by their paths in it.
func pack(out io.Writer, files map[string]string) error {
	w := tar.NewWriter(out)
	for path, source := range files {
		text, err := os.ReadFile(source)
		if err == nil {
			err = w.WriteHeader(&tar.Header{Name: path[1:], Mode: 0o755, Size: int64(len(text))})
		}
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}
