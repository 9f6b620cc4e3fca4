package text

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/mayflyhq/mayfly"
)

// maxBlocklist is the largest blocklist file in bytes.
const maxBlocklist = 64 << 20

// Blocklist refuses texts that name certain hosts. Its file has one host name on each
// line, and comments after #; a name stands for the names below it too. The file is
// read again when it has changed. Hosts are compared as they are written: no link is
// followed, so that a host behind a short link is not found. Safe for concurrent use.
type Blocklist struct {
	path    string
	problem func(error)

	mu    sync.Mutex
	seen  os.FileInfo // as the file was when it was last read
	hosts map[string]bool
}

// OpenBlocklist reads the file. problem is called when it cannot be read later: what
// was read before is used then. Errors: Invalid.
func OpenBlocklist(path string, problem func(error)) (*Blocklist, error) {
	b := &Blocklist{path: path, problem: problem}
	if err := b.read(); err != nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "read the blocklist of hosts: %w", err).WithHint("feed.blocklist_file is a text file with a host name on each line")
	}
	return b, nil
}

// Check returns an error if the text names a host of the list. A nil Blocklist has
// none. Errors: Invalid.
func (b *Blocklist) Check(text string) error {
	if b == nil {
		return nil
	}
	hosts := b.current()
	for _, host := range Hosts(text) {
		for name := host; name != ""; _, name, _ = strings.Cut(name, ".") {
			if hosts[name] {
				return mayfly.Errorf(mayfly.Invalid, "links to %.80q are not accepted here", host).WithHint("remove the link")
			}
		}
	}
	return nil
}

// current returns the hosts of the file as it is now.
func (b *Blocklist) current() map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, err := os.Stat(b.path)
	if err == nil && os.SameFile(now, b.seen) && now.ModTime().Equal(b.seen.ModTime()) && now.Size() == b.seen.Size() {
		return b.hosts
	}
	if err == nil {
		err = b.read()
	}
	if err != nil {
		b.problem(fmt.Errorf("read the blocklist of hosts again: %w", err))
	}
	return b.hosts
}

// read reads the file. What it was is noted before it is read: a change meanwhile is
// found by the next look.
func (b *Blocklist) read() (err error) {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxBlocklist+1))
	switch {
	case err != nil:
		return err
	case len(content) > maxBlocklist:
		return mayfly.Errorf(mayfly.TooLarge, "%s has more than %d bytes", b.path, maxBlocklist)
	}
	hosts := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "#")
		if host := hostOf(strings.TrimSpace(line)); host != "" {
			hosts[host] = true
		}
	}
	b.seen, b.hosts = info, hosts
	return nil
}

// Hosts returns every part of a text that may be the name of a host, in its ASCII
// form: those of links, and others with a dot in them, which some clients make links
// of. It also reads what is percent-encoded, as browsers do.
func Hosts(text string) (hosts []string) {
	texts := []string{text}
	if decoded := percentDecoded(text); decoded != text {
		texts = append(texts, decoded)
	}
	for _, text := range texts {
		for _, part := range strings.FieldsFunc(text, func(r rune) bool { return !mayBeHost(r) }) {
			if host := hostOf(part); strings.Contains(host, ".") {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// mayBeHost reports whether r can be part of a host's name. Invisible characters
// count, because browsers leave them out.
func mayBeHost(r rune) bool {
	return isWord(r) || unicode.IsNumber(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune("-.。．｡", r)
}

// hostOf returns the one spelling of a host's name.
func hostOf(name string) string {
	ascii, err := idna.New(idna.MapForLookup(), idna.StrictDomainName(false)).ToASCII(name)
	if err != nil {
		ascii = strings.ToLower(name)
	}
	return strings.Trim(ascii, ".")
}

// percentDecoded returns text with each valid %XX replaced by its byte; text itself if
// the result would be no text.
func percentDecoded(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if i+2 < len(text) && text[i] == '%' {
			if high, low := hexValue(text[i+1]), hexValue(text[i+2]); high >= 0 && low >= 0 {
				b.WriteByte(byte(high<<4 | low))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	if decoded := b.String(); utf8.ValidString(decoded) {
		return decoded
	}
	return text
}

// hexValue returns the value of a hexadecimal digit; -1 for any other byte.
func hexValue(c byte) int {
	if 'A' <= c && c <= 'F' {
		c += 'a' - 'A'
	}
	return strings.IndexByte("0123456789abcdef", c)
}
