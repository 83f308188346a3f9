package doctor

import "github.com/seed93082962/agenthost/internal/diskspace"

// Judge returns the results for free bytes and files.
func Judge(dir string, bytes, files uint64) []Result {
	return judge(dir, diskspace.Space{Bytes: bytes, Files: files})
}
