package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
)

// FirstSteps prints shell commands with which a new user tries a running server.
type FirstSteps struct {
	Data, File string // data folder and configuration file of the server
	API, Admin string // URLs; Admin may be empty
	KV         string // address of the Redis protocol; may be empty
}

// Lines returns commands that work in any folder: tokens, a follower, a key that
// expires, a photo published and read. Lines that begin with # explain the next one.
func (s FirstSteps) Lines() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	data, err := filepath.Abs(s.Data)
	if err != nil {
		return nil, err
	}
	where := "--data " + quoted(data)
	if s.File != "" {
		file, err := filepath.Abs(s.File)
		if err != nil {
			return nil, err
		}
		where += " --config " + quoted(file)
	}
	lines := []string{
		"# tokens for ana and ben, and for a service, which records that ben follows ana",
		`mayfly() { ` + quoted(self) + ` "$@" ` + where + `; }; API=` + quoted(s.API),
		`ANA=$(mayfly token --user ana); BEN=$(mayfly token --user ben); SERVICE=$(mayfly token --scope service)`,
		`curl -sS -X PUT -H "Authorization: Bearer $SERVICE" "$API/v1/users/~ana/followers/~ben"`,
	}
	if s.KV != "" {
		cli, err := s.redisCLI()
		if err != nil {
			return nil, err
		}
		lines = append(lines,
			"# ana makes a namespace and sets a key that is gone after 10 s; with redis-cli or any client of Redis",
			`export REDISCLI_AUTH=$(mayfly kv namespace add ana-keys --user ana --server "$API")`,
			cli+` SET greeting hello PX 10000; `+cli+` PTTL greeting; `+cli+` GET greeting`)
	}
	lines = append(lines,
		"# ana publishes a photo for her followers",
		quoted(self)+` story picture mayfly-photo.jpg`,
		`STORY=$(curl -sS -H "Authorization: Bearer $ANA" -F 'story={"caption":"by the sea"};type=application/json' -F media=@mayfly-photo.jpg "$API/v1/stories"); printf '%s\n' "$STORY"`,
		`ID=$(printf '%s' "$STORY" | grep -o '"id": *"[^"]*"' | head -n 1 | cut -d '"' -f 4)`,
		"# ben opens it and saves the photo; without a token the answer is that nothing is there",
		`curl -sS -H "Authorization: Bearer $BEN" "$API/v1/stories/$ID"; mayfly story open "$ID" --user ben --server "$API" --save .`,
		`curl -sS "$API/v1/stories/$ID"`)
	if s.Admin != "" {
		lines = append(lines, "# and why", `mayfly explain "$ID" --viewer ben --admin `+quoted(s.Admin))
	}
	for i, line := range lines {
		lines[i] = "  " + line
	}
	return lines, nil
}

// redisCLI returns how redis-cli opens the namespace of Lines.
func (s FirstSteps) redisCLI() (string, error) {
	host, port, err := net.SplitHostPort(s.KV)
	cli := "redis-cli -h " + quoted(host) + " -p " + port + " --user ana-keys"
	if strings.HasPrefix(s.API, "https:") {
		cli += " --tls"
	}
	return cli, err
}

// quoted quotes text for a POSIX shell.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
