package cli

import (
	"os"
	"os/exec"
	"testing"
)

// asProgram makes the test binary the program itself: a process that a test can
// start and kill without building anything.
const asProgram = "MAYFLY_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func testChild(folder string) (*exec.Cmd, error) {
	child, err := ownChild(folder)
	if err == nil {
		child.Env = append(os.Environ(), asProgram+"=1")
	}
	return child, err
}
