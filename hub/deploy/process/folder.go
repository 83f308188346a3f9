package process

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// folder is a directory of a deployment, and the one that contains all deployments.
type folder struct{ root, dir string }

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f folder) exists() bool {
	_, err := os.Stat(f.dir)
	return err == nil
}

// revision is the directory of a revision.
type revision struct {
	folder
	of     folder // of the deployment
	number int64
}

// revision returns the directory of a revision. A former version had the files of its revision in
// the directory of the deployment.
func (f folder) revision(number int64) revision {
	r := revision{folder: folder{root: f.root, dir: f.path(strconv.FormatInt(number, 10))}, of: f, number: number}
	if !r.exists() {
		if s, err := f.load(); err == nil && s.Revision == number && f.former() {
			r.folder = f
		}
	}

	return r
}

// former reports whether a former version has files of a revision in the directory of the
// deployment.
func (f folder) former() bool {
	_, err := os.Lstat(f.path(stateFile))
	return err == nil
}

// revisions returns all revisions of a deployment in their order.
func (f folder) revisions() (all []revision, err error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, clean("list revisions", err)
	}

	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil && n > 0 && e.IsDir() && e.Name() == strconv.FormatInt(n, 10) {
			all = append(all, f.revision(n))
		}
	}

	if f.former() {
		s, err := f.load()
		if err != nil {
			return nil, clean("read state of deployment", err)
		}

		all = append(all, revision{folder: f, of: f, number: s.Revision})
	}

	slices.SortFunc(all, func(a, b revision) int { return cmp.Compare(a.number, b.number) })
	return all, nil
}

// own returns the paths that belong to the revision only.
func (r revision) own() []string {
	if r.folder != r.of {
		return []string{r.dir}
	}

	var paths []string
	entries, _ := os.ReadDir(r.dir) // the removal of the others fails too
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), secretPrefix) {
			paths = append(paths, r.path(e.Name()))
		}
	}

	for _, name := range []string{configFile, envFile, keyFile, logFile, olderLog, privateDir, stateFile} {
		paths = append(paths, r.path(name))
	}

	return paths
}

// Names in a folder.
const (
	configFile = agentvalue.DeployedFile
	envFile    = "env.json"
	keyFile    = agentvalue.DeployedKeys
	stateFile  = "state.json"
	logFile    = "log"
	olderLog   = "log.1"
	workDir    = "work"
	homeDir    = "home"
	stateDir   = "state"
	privateDir = "private"

	secretPrefix = "secret-" // begins the names of the files of Config.Secrets
)

// maxFile bounds the bytes of the keys and of the environment.
const maxFile = 16 << 20

// configure writes the configuration of a request, and secret variables. A failed write leaves the
// former one.
func (r revision) configure(req deploy.Request, secrets map[string]agent.Secret) error {
	if err := r.makeDirectories(); err != nil {
		return clean("create directory of deployment", err)
	}

	file := req.File()
	file.CWD, file.StateDir = r.of.path(workDir), r.of.path(stateDir)
	text, err := yaml.Marshal(file)
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}

	if err := r.write(configFile, text); err != nil {
		return clean("write configuration", err)
	}

	env := map[string]string{}
	for name, value := range req.Env {
		if name != deploy.EnvAPIKey {
			env[name] = string(value)
		}
	}

	if text, err = json.Marshal(env); err != nil {
		return fmt.Errorf("encode environment: %w", err)
	}

	if err := r.write(envFile, text); err != nil {
		return clean("write environment", err)
	}

	for name, value := range secrets {
		if err := r.write(secretPrefix+name, []byte(value)); err != nil {
			return clean("write secret", err)
		}
	}

	return r.setKeys(string(req.Env[deploy.EnvAPIKey]))
}

// makeDirectories creates what is missing. A runtime of a former version, which was not confined,
// may have replaced a directory.
func (r revision) makeDirectories() error {
	for _, dir := range []string{r.of.dir, r.of.path(workDir), r.of.path(homeDir), r.of.path(stateDir), r.dir, r.path(privateDir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}

		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return errors.Join(err, fmt.Errorf("%s is not a directory", filepath.Base(dir)))
		}
	}

	return nil
}

// setKeys writes the API keys, which the runtime reads again when they change.
func (r revision) setKeys(list string) error {
	if text, err := readRegular(r.path(keyFile), maxFile); err == nil && string(text) == list {
		return nil
	}

	if err := r.write(keyFile, []byte(list)); err != nil {
		return clean("write keys", err)
	}

	return nil
}

// env returns the environment of the request.
func (r revision) env() ([]string, error) {
	text, err := readRegular(r.path(envFile), maxFile)
	if err != nil {
		return nil, clean("read environment", err)
	}

	env := map[string]string{}
	if err := json.Unmarshal(text, &env); err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}

	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}

	return list, nil
}

// write replaces a file, so that it is always complete.
func (r revision) write(name string, data []byte) error {
	temporary := r.path("." + name + ".new")
	if err := r.discard("." + name + ".new"); err != nil { // of an interrupted call, or a link of an agent
		return err
	}

	out, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}

	_, err = out.Write(data)
	if err == nil {
		err = out.Sync()
	}

	if err == nil {
		err = r.share(name, out)
	}

	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(temporary)
		return err
	}

	if err = os.Rename(temporary, r.path(name)); err != nil && r.discard(name) == nil {
		err = os.Rename(temporary, r.path(name)) // an agent had put a directory there
	}

	return err
}

// discard removes a file, or a link or directory that an agent without a sandbox has created in its
// place. A link is not followed, and a directory is moved away.
func (f folder) discard(name string) error {
	err := os.Remove(f.path(name))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return os.Rename(f.path(name), trashOf(f.root, name))
}

// openLog opens the log for appending.
func (f folder) openLog() (*os.File, error) {
	log, err := openRegular(f.path(logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY)
	if errors.Is(err, errIrregular) {
		if err := f.discard(logFile); err != nil {
			return nil, err
		}

		log, err = openRegular(f.path(logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY)
	}

	return log, err
}

// trashPrefix begins the names of what is deleted. New deletes what an interrupted call leaves.
const trashPrefix = ".trash-"

// trashOf returns a path in dir that is not in use.
func trashOf(dir, name string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return filepath.Join(dir, trashPrefix+name+"-"+hex.EncodeToString(b[:]))
}

// remove moves a path of the deployment away, so that a part of it never looks like a deployment,
// and returns where its content is.
func (f folder) remove(path string) (trash string, err error) {
	trash = trashOf(f.root, filepath.Base(path))
	if err := os.Rename(path, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", clean("delete deployment", err)
	}

	return trash, nil
}
