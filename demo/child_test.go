package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// childFolder names the environment variable that makes the test binary the
// server that the demo kills, so that no program has to be built.
const childFolder = "MAYFLY_TEST_DEMO_CHILD"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		if err := ServeUntilKilled(context.Background(), folder, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func testChild(folder string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childFolder+"="+folder)
	return child, nil
}
