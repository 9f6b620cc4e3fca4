package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// keyForms are the forms about keys and their namespace.
func keyForms() []string {
	return []string{
		"creates a namespace", "drops the namespace", "sets KEY to TEXT", "gets KEY", "touches KEY", "increments KEY by N", "deletes the key KEY",
		"lists keys", "follows expired keys", sendsCommand,
	}
}

func aboutKeys(form string) bool { return slices.Contains(keyForms(), form) }

// namespace returns the name of the namespace of this script: every script has its own.
func (p *player) namespace() string { return p.script.name }

func (p *player) keyPath(key string) string {
	return "/v1/kv/" + p.namespace() + "/keys/" + key
}

// keyRequest is the request that a line about keys makes, with the credentials of r.
func (p *player) keyRequest(l line, r request) (request, error) {
	d := l.action
	if d.with.withKey {
		r.header = http.Header{"Authorization": {"Bearer " + p.secret}}
	}
	switch {
	case d.with.keeping:
		r.header.Set("Mayfly-TTL", "keep")
	case d.with.lifetime != "":
		r.header.Set("Mayfly-TTL", p.lifetime(d.with.lifetime))
	}
	switch d.with.condition {
	case "absent":
		r.header.Set("If-None-Match", "*")
	case "present":
		r.header.Set("If-Match", "*")
	case "unchanged":
		key, err := p.find(d.story)
		if err != nil {
			return r, err
		}
		if key.tags[l.who.name] == "" {
			return r, fmt.Errorf("%s has not read or written %q", l.who.name, d.story)
		}
		r.header.Set("If-Match", key.tags[l.who.name])
	}
	switch d.form {
	case "creates a namespace":
		r.method, r.target = http.MethodPost, "/v1/me/kv"
		return r, r.json(wire.NewKVNamespace{Name: p.namespace(), Events: d.with.events, LastWriteWins: d.with.lastWriteWins})
	case "drops the namespace":
		r.method, r.target = http.MethodDelete, "/v1/me/kv/"+p.namespace()
	case "sets KEY to TEXT":
		r.method, r.target, r.body = http.MethodPut, p.keyPath(d.story), []byte(d.text)
	case "gets KEY":
		r.target = p.keyPath(d.story)
	case "touches KEY":
		r.method, r.target = http.MethodPatch, p.keyPath(d.story)
	case "increments KEY by N":
		r.method, r.target = http.MethodPatch, p.keyPath(d.story)
		by := int64(d.n)
		return r, r.json(wire.KVPatch{Increment: &by})
	case "deletes the key KEY":
		r.method, r.target = http.MethodDelete, p.keyPath(d.story)
	case "lists keys":
		r.target = "/v1/kv/" + p.namespace() + "/scan"
	case "follows expired keys":
		r.target, r.listen = "/v1/kv/"+p.namespace()+"/events", p.listens()
	case sendsCommand:
		r.command, r.namespace = d.text, p.namespace()
		r.secret = strings.TrimPrefix(r.header.Get("Authorization"), "Bearer ")
		if name, _, _ := strings.Cut(d.text, " "); !slices.Contains([]string{"GET", "EXISTS", "STRLEN"}, name) {
			r.method = http.MethodPost
		}
	}
	return r, nil
}

// learnKey takes from an answer what later lines speak of.
func (p *player) learnKey(l line, a answer) error {
	d := l.action
	switch {
	case d.form == "creates a namespace" && a.status == http.StatusCreated:
		var made wire.KVNamespace
		if err := json.Unmarshal(a.body, &made); err != nil || len(made.Credentials) != 1 || made.Credentials[0].Key == "" {
			return fmt.Errorf("a namespace that cannot be read, or has no key: %v", err)
		}
		p.secret = made.Credentials[0].Key
	case d.form == "gets KEY" && a.status == http.StatusOK, strings.Contains(d.form, "KEY") && a.header.Get("ETag") != "" && a.status < 300:
		return p.learnEntry(l, a)
	}
	return nil
}

// learnEntry takes the version of a key from an answer, and if it was written, since when
// it has its lifetime.
func (p *player) learnEntry(l line, a answer) error {
	d := l.action
	key, known := p.stories[d.story]
	if !known {
		key = &published{name: d.story, tags: map[string]string{}}
		p.stories[d.story] = key
	}
	key.tags[l.who.name] = a.header.Get("ETag")
	if d.form == "gets KEY" {
		return nil
	}
	p.last = key
	expiry, err := expiryOf(a)
	if err != nil {
		return err
	}
	switch {
	case d.with.keeping && expiry != key.expiry:
		return fmt.Errorf("the expiry was %s, and is %s", key.expiry, expiry)
	case expiry == key.expiry && expiry != 0:
		return nil
	case expiry == 0 && (d.with.lifetime == "" || d.with.lifetime == "never"):
		key.birth, key.expiry = a.began, 0
		return nil
	}
	lifetime, err := time.ParseDuration(p.lifetime(d.with.lifetime))
	if err != nil {
		return fmt.Errorf("the expiry is %s, and none was asked for", expiry)
	}
	key.birth, key.expiry = expiry.Add(-lifetime), expiry
	// A millisecond is what the clock of a server may be off.
	if key.birth < a.began || key.birth > a.ended {
		if _, real := p.stage.(interface{ moving() time.Duration }); !real || key.birth < a.began-1 || key.birth > a.ended+1 {
			return fmt.Errorf("the lifetime counts from %s, and it was written between %s and %s", key.birth, a.began, a.ended)
		}
	}
	return nil
}

// expiryOf returns the expiry that an answer has; 0: none.
func expiryOf(a answer) (at mayfly.Instant, err error) {
	if text := a.header.Get("Mayfly-Expires-At"); text != "" {
		err = at.UnmarshalText([]byte(text))
	}
	return at, err
}

// keyEnds holds the expiry of a key against a time since it was given its lifetime.
func (p *player) keyEnds(c check, l line, a answer) (string, bool) {
	after, err := parseSpan(c.args[0])
	if err != nil {
		return err.Error(), false
	}
	key, err := p.find(l.action.story)
	if err != nil {
		return err.Error(), false
	}
	expiry, err := expiryOf(a)
	if err != nil {
		return err.Error(), false
	}
	return expiry.String(), expiry == key.birth.Add(p.span(after))
}

// keyTwin asks the same of a key that never was, or if the namespace was refused, of one
// that does not exist, and wants the same bytes.
func (p *player) keyTwin(l line, r request, refused answer) error {
	if !strings.HasPrefix(r.target, "/v1/kv/") {
		return nil
	}
	switch never := p.namespace() + ".never"; {
	case refused.status == http.StatusForbidden:
		r.target = strings.Replace(r.target, "/kv/"+p.namespace()+"/", "/kv/"+never+"/", 1)
	case refused.status == http.StatusNotFound && strings.Contains(r.target, "/keys/"):
		r.target += ".never"
	default:
		return nil
	}
	a, err := p.ask(r)
	if err != nil {
		return err
	}
	p.tally.twins++
	for _, difference := range differences(refused, a) {
		p.Errorf("%s: refused in other words than what never was: %s\n\t%s", l.where, difference, l.text)
	}
	return nil
}

// expiredKeys reads what has come of a stream of events.
func expiredKeys(body []byte) (all []wire.KVKey, err error) {
	for text := range bytes.Lines(body) {
		data, found := bytes.CutPrefix(text, []byte("data: "))
		if !found {
			continue
		}
		var e wire.KVExpired
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, err
		}
		if e.Key == nil {
			return nil, fmt.Errorf("an event without a key: %s", data)
		}
		all = append(all, wire.KVKey{Key: e.Key, ExpiresAt: &e.ExpiredAt})
	}
	return all, nil
}

// converse opens the namespace on a new connection, sends the command and returns the
// answer as redis-cli shows it. It closes the connection.
func (r request) converse(client net.Conn) (body []byte, err error) {
	defer func() { _ = client.Close() }() // every answer was read
	if err := client.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, err
	}
	in := bufio.NewReader(client)
	for _, command := range []string{"AUTH " + r.namespace + " " + r.secret, r.command} {
		if _, err := io.WriteString(client, command+"\r\n"); err != nil {
			return nil, err
		}
		text, err := readRedis(in)
		if err != nil || strings.HasPrefix(text, "(error) ") {
			return []byte(text), err
		}
		body = []byte(text)
	}
	return body, nil
}

// readRedis reads an answer that is not an array.
func readRedis(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return "(error) " + rest, nil
	case ':':
		return "(integer) " + rest, nil
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "(nil)", err
		}
		b := make([]byte, n+2)
		_, err = io.ReadFull(in, b)
		return string(b[:n]), err
	}
	return "", fmt.Errorf("an answer that begins with %q", line)
}
