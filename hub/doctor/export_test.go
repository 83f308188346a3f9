package doctor

// Judge returns the results for free bytes and files.
func Judge(dir string, bytes, files uint64) []Result { return judge(dir, space{bytes, files}) }
