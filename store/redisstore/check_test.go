package redisstore

import "testing"

func TestOldServersAreUnsupported(t *testing.T) {
	for info, ok := range map[string]bool{"# Server\r\nredis_version:7.0.15\r\n": true, "redis_version:10.2.1": true, "redis_version:6.2.0": false, "": false} {
		if err := checkVersion(info); (err == nil) != ok {
			t.Errorf("%q: %v", info, err)
		}
	}
}
