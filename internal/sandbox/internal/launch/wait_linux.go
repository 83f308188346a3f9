package launch

import (
	"errors"
	"strconv"
	"syscall"
)

// wait waits for pid, and for all orphans until then. It returns the exit code of a shell: 128 and
// the number of the signal, which is returned too, for a process that a signal has ended.
func wait(pid int) (int, syscall.Signal) {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}

		if err != nil {
			return fail(wrap("wait for the command", err)), 0
		}

		if ended != pid {
			continue
		}

		if status.Signaled() {
			return 128 + int(status.Signal()), status.Signal()
		}

		return status.ExitStatus(), 0
	}
}

// openChildren opens the list of the children of this process, which is also the parent of orphans.
func openChildren() int {
	pid := strconv.Itoa(syscall.Getpid())
	fd, err := syscall.Open("/proc/"+pid+"/task/"+pid+"/children", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1 // a kernel without CONFIG_PROC_CHILDREN
	}

	return fd
}

// killOrphans kills the children of the process until there are none.
func killOrphans(list int) {
	for {
		if _, err := syscall.Seek(list, 0, 0); err != nil {
			return
		}

		children, err := readAll(list)
		if err != nil || children == "" {
			return
		}

		id := 0
		for _, c := range children { // numbers, each with a space after it
			if c != ' ' {
				id = id*10 + int(c-'0')
				continue
			}

			if id > 0 {
				_ = syscall.Kill(id, syscall.SIGKILL)
			}

			id = 0
		}

		var status syscall.WaitStatus
		if _, err := syscall.Wait4(-1, &status, 0, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}

func readAll(fd int) (string, error) {
	var b []byte
	chunk := make([]byte, 4096)
	for {
		n, err := syscall.Read(fd, chunk)
		if errors.Is(err, syscall.EINTR) {
			continue
		}

		if err != nil {
			return "", err
		}

		if n == 0 {
			return string(b), nil
		}

		b = append(b, chunk[:n]...)
	}
}

func writeFile(path, content string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}

	_, err = syscall.Write(fd, []byte(content)) // at once: each write replaces the content
	_ = syscall.Close(fd)
	return err
}
