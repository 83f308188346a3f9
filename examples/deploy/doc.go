// Package deploy contains only tests, which run its compose file and its systemd unit on a real
// engine and a real systemd: make test-deploy. The manifests are tested by tools/kubernetes.
package deploy
