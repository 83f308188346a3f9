package drivers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIDOfTheOwnContainer(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0123456789abcdef", 4)
	const none = "0::/\n"
	for name, c := range map[string]struct{ mounts, groups, host, want string }{
		"control groups 2, or a namespace of them": {
			"731 709 254:1 /var/lib/docker/containers/" + id + "/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/vda1 rw\n" +
				"732 709 254:1 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw,relatime - ext4 /dev/vda1 rw\n", none, "hub", id,
		},
		"control groups 1":                    {"1 0 254:1 / / rw - ext4 /dev/vda1 rw\n", "12:pids:/docker/" + id + "\n0::/system.slice/containerd.service\n", "hub", id},
		"control groups of systemd":           {"", "0::/system.slice/docker-" + id + ".scope\n", "hub", id},
		"only the host name":                  {"", none, id[:12], id[:12]},
		"a host name that is not an id":       {"", none, "hub", ""},
		"a file of another place":             {"731 709 254:1 /srv/" + id + "/hostname /etc/other rw - ext4 /dev/vda1 rw\n", none, "", ""},
		"no container":                        {"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n", "4:memory:/user.slice\n0::/init.scope\n", "", ""},
		"a group below that of the container": {"", "4:memory:/docker/" + id + "/agent\n", "", ""},
	} {
		require.Equal(t, c.want, containerID([]byte(c.mounts), []byte(c.groups), c.host), name)
	}
}
