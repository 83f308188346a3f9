//go:build !linux

package pgtest

func memoryDir() string { return "" }
