package server

import (
	"strings"
	"testing"
)

func TestTheFirstStepsShowAKeyWhereTheRedisProtocolIsServed(t *testing.T) {
	for _, c := range []struct {
		s    FirstSteps
		want string // "": no key
	}{
		{FirstSteps{API: "http://127.0.0.1:1"}, ""},
		{FirstSteps{API: "http://127.0.0.1:1", KV: "127.0.0.1:6380"}, "redis-cli -h 127.0.0.1 -p 6380 --user ana-keys SET "},
		{FirstSteps{API: "https://127.0.0.1:1", KV: "[::1]:6380"}, "redis-cli -h ::1 -p 6380 --user ana-keys --tls SET "},
	} {
		lines, err := c.s.Lines()
		text := strings.Join(lines, "\n")
		if err != nil || !strings.Contains(text, c.want) || c.want == "" && strings.Contains(text, "redis-cli") {
			t.Errorf("%+v: %v\n%s", c.s, err, text)
		}
	}
}
