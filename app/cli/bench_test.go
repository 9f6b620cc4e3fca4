package cli

import (
	"bytes"
	"testing"
)

func TestBenchRefusesUnknownArguments(t *testing.T) {
	for _, args := range [][]string{{"bench"}, {"bench", "nothing"}, {"bench", "gate", "sweep"}, {"bench", "gate", "--quick", "--long"}} {
		var out, errs bytes.Buffer
		if code := Run(args, &out, &errs); code != exitUsage || out.Len() > 0 || errs.Len() == 0 {
			t.Errorf("%q: exit %d, %q, %q", args, code, out.String(), errs.String())
		}
	}
}
