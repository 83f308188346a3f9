package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// volumeDir returns the directory of a volume.
func (p *pod) volumeDir(name string) string {
	for i := range p.spec.Volumes {
		if v := &p.spec.Volumes[i]; v.Name == name && v.PersistentVolumeClaim != nil {
			return filepath.Join(p.dir, "claims", name)
		}
	}

	return filepath.Join(p.dir, "volumes", name)
}

// syncVolumes creates the volumes, and writes the present content of Secrets and ConfigMaps to
// them.
func (p *pod) syncVolumes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var errs []error
	for i := range p.spec.Volumes {
		v := &p.spec.Volumes[i]
		if err := p.syncVolume(ctx, v); err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", v.Name, err))
		}
	}

	return errors.Join(errs...)
}

func (p *pod) syncVolume(ctx context.Context, v *core.Volume) error {
	dir := p.volumeDir(v.Name)
	switch {
	case v.EmptyDir != nil:
		return p.createDir(dir, 0o777)
	case v.PersistentVolumeClaim != nil:
		return p.mountClaim(ctx, v.PersistentVolumeClaim.ClaimName, dir)
	case v.Secret != nil:
		s := v.Secret
		return p.syncFiles(ctx, dir, *s.DefaultMode, []core.VolumeProjection{{Secret: &core.SecretProjection{
			LocalObjectReference: core.LocalObjectReference{Name: s.SecretName}, Items: s.Items, Optional: s.Optional,
		}}})
	case v.Projected != nil:
		return p.syncFiles(ctx, dir, *v.Projected.DefaultMode, v.Projected.Sources)
	}

	return errors.New("the stand-in for a kubelet has no volumes of this kind")
}

// createDir creates a directory that the group of the pod may change.
func (p *pod) createDir(dir string, mode fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	if group, found := p.group(); found {
		if err := os.Chown(dir, 0, group); err != nil {
			return err
		}

		mode |= 0o770 | fs.ModeSetgid
	}

	return os.Chmod(dir, mode)
}

// createSubPath creates the directory of a mount that is only a part of its volume.
func (p *pod) createSubPath(m core.VolumeMount) error {
	if m.SubPath == "" {
		return nil
	}

	volume, err := filepath.EvalSymlinks(p.volumeDir(m.Name))
	if err != nil {
		return err
	}

	if _, err := os.Stat(filepath.Join(volume, m.SubPath)); err == nil {
		return nil
	}

	return p.createDir(filepath.Join(volume, m.SubPath), 0o750)
}

// group returns the group that owns the volumes.
func (p *pod) group() (id int, found bool) {
	s := p.spec.SecurityContext
	if s == nil || s.FSGroup == nil {
		return 0, false
	}

	return int(*s.FSGroup), true
}

// mountClaim makes a path the directory of a bound claim.
func (p *pod) mountClaim(ctx context.Context, name, path string) error {
	claim, err := p.node.cluster.client.CoreV1().PersistentVolumeClaims(p.namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return err
	}

	if claim.Status.Phase != core.ClaimBound {
		return fmt.Errorf("claim %q is not bound", name)
	}

	dir := volumeFolder(string(claim.UID))
	if err := p.createDir(dir, 0o755); err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}

	if err := os.Symlink(dir, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}

	return nil
}

// file is a file of a volume.
type file struct {
	text string
	mode int32
}

// syncFiles writes the files of a volume as a kubelet does: all of a version appear together, by
// one rename of the link ..data.
func (p *pod) syncFiles(ctx context.Context, dir string, mode int32, sources []core.VolumeProjection) error {
	files := map[string]file{}
	for _, source := range sources {
		if err := p.project(ctx, source, mode, files); err != nil {
			return err
		}
	}

	if current, err := os.ReadDir(filepath.Join(dir, "..data")); err == nil && sameFiles(filepath.Join(dir, "..data"), current, files) {
		return nil
	}

	version := fmt.Sprintf("..%s", time.Now().UTC().Format("2006_01_02_15_04_05.000000000"))
	if err := p.writeVersion(filepath.Join(dir, version), files); err != nil {
		return err
	}

	former, _ := os.Readlink(filepath.Join(dir, "..data"))
	if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
		return err
	}

	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		return err
	}

	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}

	if former == "" {
		return nil
	}

	entries, err := os.ReadDir(filepath.Join(dir, former))
	for _, e := range entries {
		if _, found := files[e.Name()]; !found {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}

	return errors.Join(err, os.RemoveAll(filepath.Join(dir, former)))
}

func (p *pod) writeVersion(dir string, files map[string]file) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	group, owned := p.group()
	for name, f := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
			return err
		}

		mode := fs.FileMode(f.mode) //nolint:gosec // G115: of nine bits
		if owned {
			if err := os.Chown(path, 0, group); err != nil {
				return err
			}

			mode |= 0o440
		}

		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}

	return nil
}

func sameFiles(dir string, current []fs.DirEntry, files map[string]file) bool {
	if len(current) != len(files) {
		return false
	}

	for name, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(text) != f.text {
			return false
		}
	}

	return true
}

// project adds the files of one source.
func (p *pod) project(ctx context.Context, source core.VolumeProjection, mode int32, files map[string]file) error {
	var values map[string]string
	var items []core.KeyToPath
	var err error
	switch {
	case source.Secret != nil:
		values, err = p.secret(source.Secret.Name, source.Secret.Optional)
		items = source.Secret.Items
	case source.ConfigMap != nil:
		values, err = p.configMap(source.ConfigMap.Name, source.ConfigMap.Optional)
		items = source.ConfigMap.Items
	case source.DownwardAPI != nil:
		for _, item := range source.DownwardAPI.Items {
			if item.FieldRef.FieldPath != "metadata.namespace" {
				return fmt.Errorf("the stand-in for a kubelet has no field %s", item.FieldRef.FieldPath)
			}

			files[item.Path] = file{p.namespace, mode}
		}
	case source.ServiceAccountToken != nil:
		return p.projectToken(ctx, source.ServiceAccountToken, mode, files)
	default:
		err = errors.New("the stand-in for a kubelet has no such source")
	}

	for name, text := range values {
		if len(items) == 0 {
			files[name] = file{text, mode}
		}
	}

	for _, item := range items {
		text, found := values[item.Key]
		if !found {
			return errors.Join(err, fmt.Errorf("references non-existent secret key: %s", item.Key))
		}

		own := mode
		if item.Mode != nil {
			own = *item.Mode
		}

		files[item.Path] = file{text, own}
	}

	return err
}

// projectToken adds a token of the service account. It is valid for as long as any test takes.
func (p *pod) projectToken(ctx context.Context, source *core.ServiceAccountTokenProjection, mode int32, files map[string]file) error {
	if text, err := os.ReadFile(filepath.Join(p.dir, "token")); err == nil {
		files[source.Path] = file{string(text), mode}
		return nil
	}

	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.name, UID: p.uid},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}

	accounts := p.node.cluster.client.CoreV1().ServiceAccounts(p.namespace)
	token, err := accounts.CreateToken(ctx, p.spec.ServiceAccountName, request, meta.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create token: %w", err)
	}

	files[source.Path] = file{token.Status.Token, mode}
	return os.WriteFile(filepath.Join(p.dir, "token"), []byte(token.Status.Token), 0o600)
}

// secret returns the values of a Secret, none if it is optional and does not exist.
func (p *pod) secret(name string, optional *bool) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	object, err := p.node.cluster.client.CoreV1().Secrets(p.namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return nil, ignoreOptional(err, optional)
	}

	values := map[string]string{}
	for key, value := range object.Data {
		values[key] = string(value)
	}

	return values, nil
}

func (p *pod) configMap(name string, optional *bool) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	object, err := p.node.cluster.client.CoreV1().ConfigMaps(p.namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return nil, ignoreOptional(err, optional)
	}

	values := maps.Clone(object.Data)
	for key, value := range object.BinaryData {
		values[key] = string(value)
	}

	return values, nil
}

func ignoreOptional(err error, optional *bool) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}

	return err
}
