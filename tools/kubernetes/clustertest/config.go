package clustertest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// imageUser is the user of all images.
const imageUser = 65532

// user returns the user of the container.
func (c *container) user() int64 {
	if s := c.spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser
	}

	if s := c.pod.spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser
	}

	return imageUser
}

func (c *container) nonRoot() bool {
	if s := c.spec.SecurityContext; s != nil && s.RunAsNonRoot != nil {
		return *s.RunAsNonRoot
	}

	s := c.pod.spec.SecurityContext
	return s != nil && s.RunAsNonRoot != nil && *s.RunAsNonRoot
}

// sandbox returns what the next process of the container enters, and creates its files.
func (c *container) sandbox() (s sandbox, err error) {
	image := c.pod.node.images[c.spec.Image]
	group := filepath.Join(c.pod.node.group, fmt.Sprintf("%s-%s-%d", c.pod.uid, c.spec.Name, c.attempt))
	s = sandbox{
		Root: filepath.Join(c.dir, "root"), Network: "/run/netns/" + c.pod.netns, Group: group, Host: c.pod.name, Image: image,
		Message: filepath.Join(c.dir, "message"), User: int(c.user()), GroupID: imageUser, Dir: c.spec.WorkingDir,
		Memory: c.spec.Resources.Limits.Memory().Value(),
	}
	for _, dir := range []string{s.Root, group} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return s, err
		}
	}

	if err := os.WriteFile(s.Message, nil, 0o600); err != nil {
		return s, err
	}

	if err := os.Chmod(s.Message, 0o666); err != nil { //nolint:gosec // G302: of any user, as with a kubelet
		return s, err
	}

	if s.Dir == "" {
		s.Dir = "/"
	}

	if p := c.pod.spec.SecurityContext; p != nil {
		if p.RunAsGroup != nil {
			s.GroupID = int(*p.RunAsGroup)
		}

		if p.FSGroup != nil {
			s.Groups = append(s.Groups, int(*p.FSGroup))
		}
	}

	if own := c.spec.SecurityContext; own != nil {
		if own.RunAsGroup != nil {
			s.GroupID = int(*own.RunAsGroup)
		}

		s.ReadOnly = own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
		s.Locked = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
		s.Drop = own.Capabilities != nil && slices.Contains(own.Capabilities.Drop, "ALL")
	}

	variables, err := c.environment()
	if err != nil {
		return s, err
	}

	s.Args = c.spec.Command
	if len(s.Args) == 0 {
		s.Args = []string{"/usr/local/bin/" + filepath.Base(image)}
	}

	s.Args = slices.Concat(s.Args, c.spec.Args)
	for i, arg := range s.Args {
		s.Args[i] = expand(arg, variables)
	}

	for _, name := range slices.Sorted(maps.Keys(variables)) {
		s.Env = append(s.Env, name+"="+variables[name])
	}

	for _, m := range c.spec.VolumeMounts {
		if err := c.pod.createSubPath(m); err != nil {
			return s, err
		}

		s.Mounts = append(s.Mounts, mount{filepath.Join(c.pod.volumeDir(m.Name), m.SubPath), m.MountPath, m.ReadOnly})
	}

	return s, nil
}

// expand replaces references of the form $(NAME), see the documentation of Container.Args.
func expand(text string, variables map[string]string) string {
	for name, value := range variables {
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}

	return text
}

// environment returns the variables of the container.
func (c *container) environment() (map[string]string, error) {
	all := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": c.pod.name, "HOME": "/",
		"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443",
	}
	maps.Copy(all, c.pod.node.options.Env[c.spec.Image])
	for _, from := range c.spec.EnvFrom {
		if from.ConfigMapRef == nil {
			return nil, errors.New("the stand-in for a kubelet has variables of ConfigMaps only")
		}

		values, err := c.pod.configMap(from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		if err != nil {
			return nil, err
		}

		for name, value := range values {
			all[from.Prefix+name] = value
		}
	}

	for _, v := range c.spec.Env {
		if v.ValueFrom != nil {
			return nil, fmt.Errorf("the stand-in for a kubelet has no source of variable %s", v.Name)
		}

		all[v.Name] = expand(v.Value, all)
	}

	return all, nil
}
