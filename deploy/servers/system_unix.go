//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// detach starts the command in a session of its own.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func wake() os.Signal { return syscall.SIGCONT }

// flock locks an open file until it is closed or this process ends.
func flock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
