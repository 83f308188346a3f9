#!/usr/bin/env bash
# Boots systemd on a copy of this system in memory, starts the unit as the README does, and chats with
# an agent. Arguments: a directory with the program hub, and an empty one.
set -euo pipefail
bin=$1 scratch=$2
here=$(cd "$(dirname "$0")/.." && pwd)

mount --make-rprivate /
mount -t tmpfs tmpfs "$scratch"
root=$scratch/root
mkdir "$scratch/upper" "$scratch/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
for dir in run tmp dev sys/fs/cgroup; do mount -t tmpfs tmpfs "$root/$dir"; done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/sys/fs/cgroup/systemd"
mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t cgroup cgroup "$root/sys/fs/cgroup/systemd" -o none,name=systemd
ln -s pts/ptmx "$root/dev/ptmx"
for device in null zero full random urandom tty; do
	touch "$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
ip link set lo up

# The steps of the README, but those that need a running systemd.
rm -rf "$root"/etc/systemd/system/*
mkdir -p "$root/test/dist" "$root/test/examples"
cp "$bin/hub" "$root/test/dist/hub-linux-amd64"
cp -r "$here" "$root/test/examples/deploy"
sed -n '/^sudo install/,/^sudo systemctl/p' "$here/systemd/README.md" | grep -v systemctl | sed 's/sudo //; s/ *#.*//' >"$root/test/steps.sh"
cat >"$root/etc/systemd/system/test.target" <<'END'
[Unit]
Requires=basic.target test.service
After=basic.target
END
cat >"$root/etc/systemd/system/test.service" <<'END'
[Service]
Type=oneshot
ExecStart=/bin/bash /test/examples/deploy/testdata/booted.sh
StandardOutput=file:/dev/test
StandardError=file:/dev/test
ExecStopPost=/bin/systemctl poweroff --force --force
END
mkfifo "$root/dev/test"
cat <>"$root/dev/test" & # it stays open between two writers
cd "$root"
pivot_root . mnt
umount -l /mnt
exec env -i container=test PATH=/usr/sbin:/usr/bin /usr/sbin/chroot / /lib/systemd/systemd --unit=test.target --show-status=no --log-target=null
