package resp

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/mayflyhq/mayfly/product/kv"
)

func del(_ *conn, args [][]byte) step {
	return step{ops: eachKey(args[1:], kv.Op{Action: kv.Delete}), reply: func(w *Reply, r []kv.Result) {
		n := 0
		for i := range r {
			if r[i].Done {
				n++
			}
		}
		w.Int(int64(n))
	}}
}

func exists(_ *conn, args [][]byte) step {
	return step{ops: eachKey(args[1:], kv.Op{}), reply: func(w *Reply, r []kv.Result) {
		n := 0
		for i := range r {
			if r[i].Old.Found {
				n++
			}
		}
		w.Int(int64(n))
	}}
}

func typeOf(_ *conn, args [][]byte) step {
	return read(args[1], func(w *Reply, e kv.Entry) {
		if e.Found {
			w.Simple("string")
		} else {
			w.Simple("none")
		}
	})
}

// takes counts operations against the rate of the namespace, or answers that there were
// too many.
func (c *conn) takes(w *Reply, operations int) bool {
	if err := c.space.Take(c.ctx, operations, c.at.Steady); err != nil {
		w.Error(errorText(err))
		return false
	}
	return true
}

// pages returns how many pages of entries there are; each counts as an operation.
func pages(entries int) int { return max((entries+scanPage-1)/scanPage, 1) }

func dbsize(c *conn, w *Reply, _ [][]byte) {
	if !c.takes(w, 1) {
		return
	}
	stats, err := c.space.Stats(c.ctx, c.at)
	if err != nil {
		w.Error(errorText(err))
		return
	}
	w.Int(stats.Keys)
}

// scanPage is how many entries are read at once, and maxScan how many one SCAN looks at.
const (
	scanPage = 1000
	maxScan  = 10_000
)

// scan answers with a page of keys and the cursor of the next one.
func scan(c *conn, w *Reply, args [][]byte) {
	id, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		w.Error("ERR invalid cursor")
		return
	}
	pattern, count, none := []byte("*"), 10, false
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			w.Error(errSyntax)
			return
		}
		switch arg := args[i+1]; {
		case is(args[i], "match"):
			pattern = arg
		case is(args[i], "type"):
			none = !is(arg, "string")
		case is(args[i], "count"):
			n, good := parseInt(arg)
			if !good {
				w.Error(errInteger)
				return
			}
			if n < 1 {
				w.Error(errSyntax)
				return
			}
			count = int(min(n, maxScan))
		default:
			w.Error(errSyntax)
			return
		}
	}
	at := position{space: c.space.ID(), prefix: literalPrefix(pattern)}
	if id != 0 {
		var known bool
		before := at.prefix
		if at, known = c.s.cursors.get(id, at.space); !known {
			w.Error("ERR invalid cursor: it was forgotten; begin again with SCAN 0")
			return
		}
		if !bytes.HasPrefix([]byte(before), []byte(at.prefix)) {
			w.Error("ERR invalid cursor: it was made with another MATCH; begin again with SCAN 0")
			return
		}
	}
	if len(at.prefix) > kv.MaxKey {
		none, at.prefix = true, ""
		id = 0
	}
	if !c.takes(w, pages(count)) {
		return
	}
	var found []string
	if !none || id != 0 {
		page, next, err := c.space.Scan(c.ctx, c.at, at.prefix, at.after, min(count, maxScan))
		if err != nil {
			w.Error(errorText(err))
			return
		}
		size := 0
		for _, e := range page {
			if !none && globMatch(pattern, []byte(e.Key)) {
				found = append(found, e.Key)
				size += len(e.Key) + argCost
			}
		}
		if size > freeAnswer && !c.hold(2*size) {
			w.Error(errorText(errBusy()))
			return
		}
		at.after = next
	}
	cursor := uint64(0)
	if at.after != "" {
		cursor = c.s.cursors.put(at)
	}
	w.Array(2)
	w.Text(strconv.FormatUint(cursor, 10))
	texts(w, found)
}

func texts(w *Reply, all []string) {
	w.Array(len(all))
	for _, s := range all {
		w.Text(s)
	}
}

// keys answers with all keys that match a pattern, up to the size of an answer.
func keys(c *conn, w *Reply, args [][]byte) {
	prefix := literalPrefix(args[1])
	if len(prefix) > kv.MaxKey {
		w.Array(0)
		return
	}
	var found []string
	all, size := 0, 0 // bytes of found, and of those of a page
	for after := ""; ; {
		if err := c.refresh(); err != nil {
			w.Error(errorText(err))
			return
		}
		if !c.takes(w, 1) {
			return
		}
		page, next, err := c.space.Scan(c.ctx, c.at, prefix, after, scanPage)
		if err != nil {
			w.Error(errorText(err))
			return
		}
		for _, e := range page {
			if globMatch(args[1], []byte(e.Key)) {
				found = append(found, e.Key)
				size += len(e.Key) + argCost
			}
		}
		switch {
		case all+size > maxAnswer:
			w.Error("ERR too many keys; use SCAN")
			return
		case !c.hold(2 * size):
			w.Error(errorText(errBusy()))
			return
		}
		all, size = all+size, 0
		if next == "" {
			texts(w, found)
			return
		}
		after = next
	}
}

func flushdb(c *conn, w *Reply, args [][]byte) {
	if len(args) > 2 || len(args) == 2 && !is(args[1], "async") && !is(args[1], "sync") {
		w.Error(errSyntax)
		return
	}
	if rate := c.space.Settings().Rate; rate.Count > 0 {
		stats, err := c.space.Stats(c.ctx, c.at)
		if err != nil {
			w.Error(errorText(err))
			return
		}
		if !c.takes(w, min(pages(int(stats.Keys)), rate.Count)) { // it is possible at any rate
			return
		}
	}
	if err := c.space.Clear(c.ctx, c.at); err != nil {
		w.Error(errorText(err))
		return
	}
	w.Simple(okText)
}

// position is where a SCAN goes on.
type position struct{ space, prefix, after string }

// cursors remembers the positions of the last SCANs under decimal numbers, because
// clients take no other cursors. Which are forgotten first is the same for all: the
// oldest.
type cursors struct {
	mu   sync.Mutex
	next uint64
	ring [maxCursors]position
	ids  [maxCursors]uint64
}

// maxCursors is how many cursors are remembered. A position takes as much as a key.
const maxCursors = 8192

// newCursors begins at a random number, so that a cursor of the process before is not
// taken for another one.
func newCursors() *cursors { return &cursors{next: 1 + rand.Uint64N(1<<52)} }

func (c *cursors) put(p position) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	c.ring[id%maxCursors], c.ids[id%maxCursors] = p, id
	return id
}

// get returns the position of a cursor of a namespace. A client may use it again.
func (c *cursors) get(id uint64, space string) (position, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.ring[id%maxCursors]
	return p, c.ids[id%maxCursors] == id && p.space == space
}

// literalPrefix returns what every key that matches a pattern begins with.
func literalPrefix(pattern []byte) string {
	if i := bytes.IndexAny(pattern, `*?[\`); i >= 0 {
		pattern = pattern[:i]
	}
	return string(pattern)
}

// globMatch reports whether a key matches a pattern of * ? [a-z] [^a] and \ before a
// byte that is meant as it is. It takes at most as many steps as the product of both
// lengths.
func globMatch(pattern, s []byte) bool {
	star, from := -1, 0 // the last *, and where what follows it was tried
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, from = p, i
			p++
			continue
		}
		if n, matched := matchOne(pattern[p:], s[i]); matched {
			p, i = p+n, i+1
			continue
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star+1, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte with the beginning of a pattern and returns how long that is.
func matchOne(p []byte, c byte) (n int, matched bool) {
	if len(p) == 0 {
		return 0, false
	}
	switch p[0] {
	case '?':
		return 1, true
	case '[':
		return matchClass(p, c)
	case '\\':
		if len(p) > 1 {
			return 2, p[1] == c
		}
	}
	return 1, p[0] == c
}

// matchClass matches a byte with a class such as [a-z] or [^abc].
func matchClass(p []byte, c byte) (n int, matched bool) {
	n = 1
	negated := n < len(p) && p[n] == '^'
	if negated {
		n++
	}
	for n < len(p) && p[n] != ']' {
		switch {
		case p[n] == '\\' && n+1 < len(p):
			n++
			matched = matched || p[n] == c
		case n+2 < len(p) && p[n+1] == '-':
			low, high := min(p[n], p[n+2]), max(p[n], p[n+2])
			matched = matched || low <= c && c <= high
			n += 2
		default:
			matched = matched || p[n] == c
		}
		n++
	}
	return min(n+1, len(p)), matched != negated
}
