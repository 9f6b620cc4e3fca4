package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// trial is what a first user needs to know to try a server that has just started.
type trial struct {
	data, file string // data folder and configuration file, as the server has them
	api, admin string // URLs
}

// lines are commands that work as they stand in any folder: tokens, a follower, a
// photo published and seen. Lines that begin with # say what the next one does.
func (t trial) lines() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	data, err := filepath.Abs(t.data)
	if err != nil {
		return nil, err
	}
	where := "--data " + quoted(data)
	if t.file != "" {
		file, err := filepath.Abs(t.file)
		if err != nil {
			return nil, err
		}
		where += " --config " + quoted(file)
	}
	lines := []string{
		"# tokens for ana and ben, and for a service, which says that ben follows ana",
		`mayfly() { ` + quoted(self) + ` "$@" ` + where + `; }; API=` + quoted(t.api),
		`ANA=$(mayfly token --user ana); BEN=$(mayfly token --user ben); SERVICE=$(mayfly token --scope service)`,
		`curl -sS -X PUT -H "Authorization: Bearer $SERVICE" "$API/v1/users/~ana/followers/~ben"`,
		"# ana publishes a photo for her followers",
		quoted(self) + ` story picture mayfly-photo.jpg`,
		`STORY=$(curl -sS -H "Authorization: Bearer $ANA" -F 'story={"caption":"by the sea"};type=application/json' -F media=@mayfly-photo.jpg "$API/v1/stories"); printf '%s\n' "$STORY"`,
		`ID=$(printf '%s' "$STORY" | grep -o '"id": *"[^"]*"' | head -n 1 | cut -d '"' -f 4)`,
		"# ben sees it, and saves the photo; somebody without an account is told that there is nothing",
		`curl -sS -H "Authorization: Bearer $BEN" "$API/v1/stories/$ID"; mayfly story open "$ID" --user ben --server "$API" --save .`,
		`curl -sS "$API/v1/stories/$ID"`,
	}
	if t.admin != "" {
		lines = append(lines, "# and why", `mayfly explain "$ID" --viewer ben --admin `+quoted(t.admin))
	}
	for i, line := range lines {
		lines[i] = "  " + line
	}
	return lines, nil
}

// quoted is text as a shell reads it back, whatever is in it.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-:", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
