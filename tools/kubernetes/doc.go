// Package kubernetes contains only tests, which run the hub and its deployments on a real control
// plane, see package clustertest.
package kubernetes
