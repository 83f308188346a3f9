//go:build !(linux && (amd64 || arm64))

package filesafe

import "os"

// looker reads the status of entries of open directories.
type looker struct{}

// at returns the status of the entry at name. It does not follow links.
func (*looker) at(dir *os.Root, _ int, name string) (status, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return status{}, err
	}
	return status{info.Mode(), info.Size(), info.ModTime()}, nil
}
