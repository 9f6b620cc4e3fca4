//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

func detach(*exec.Cmd) {}

func wake() os.Signal { return syscall.SIGTERM }

func flock(*os.File) error {
	return errors.New("file locks are not supported here; use Linux or macOS")
}
