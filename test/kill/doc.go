// Package kill has the tests that kill a process with SIGKILL, again and again, and
// check that everything it had acknowledged survives. The process is the test
// binary itself, started again as a worker.
package kill
