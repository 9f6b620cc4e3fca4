package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

const (
	restartWriters = 10
	restartReaders = 3
	restartAuthors = 40
)

// restartStory is a story that was acknowledged.
type restartStory struct {
	id     mayfly.ID
	author int
	sum    string // of its medium as it is stored
}

// restartLoad publishes and reads all the while, and records the answers.
type restartLoad struct {
	*restarted
	tokens []string // of the authors
	people sync.WaitGroup
	ending chan struct{}
	moved  chan struct{} // something was answered

	mu         sync.Mutex
	acked      []restartStory
	reads      int
	answered   map[string]int    // by request
	unanswered map[string]string // and why
	again      []string          // requests before one whose answer was that the story exists already
}

func newRestartLoad(s *restarted) *restartLoad {
	s.Helper()
	l := &restartLoad{restarted: s, ending: make(chan struct{}), moved: make(chan struct{}, 1), answered: map[string]int{}, unanswered: map[string]string{}}
	for n := range restartAuthors {
		name := fmt.Sprintf("author-%d", n)
		token, err := s.key.Mint(account.Grant{
			Issuer: issuer, Audience: issuer, User: mayfly.HomeUserOf(issuer, name), Subject: name, Scopes: []account.Scope{account.User}, Lasts: time.Hour,
		}, mayfly.InstantOf(time.Now()))
		if err != nil {
			s.Fatal(err)
		}
		l.tokens = append(l.tokens, string(token))
	}
	return l
}

// begin lets everybody work; finish waits for them.
func (l *restartLoad) begin() (finish func()) {
	for n := range restartWriters {
		l.people.Go(func() { l.work(n, l.write) })
	}
	for n := range restartReaders {
		l.people.Go(func() { l.work(restartWriters+n, l.read) })
	}
	return func() {
		close(l.ending)
		l.people.Wait()
	}
}

// restartHand is a user with a connection.
type restartHand struct {
	number, count int
	client        *http.Client
	random        *rand.Rand
}

func (l *restartLoad) work(number int, do func(h *restartHand)) {
	h := &restartHand{number: number, random: rand.New(rand.NewPCG(uint64(number), 5))}
	h.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}, Timeout: 20 * time.Second}
	defer h.client.CloseIdleConnections()
	for {
		select {
		case <-l.ending:
			return
		default:
			do(h)
		}
	}
}

// goOn waits until so many more stories were published, and reads answered.
func (l *restartLoad) goOn(n int) {
	l.Helper()
	count := func() (stories, reads int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acked), l.reads
	}
	stories, reads := count()
	late := time.After(time.Minute)
	for {
		select {
		case <-l.moved:
		case <-late:
			l.Fatal("the load does not go on")
		}
		if s, r := count(); s-stories >= n && r-reads >= n {
			return
		}
	}
}

// send sends a request once; not ok is no answer. What breaks off within an
// answer is a fault.
func (l *restartLoad) send(h *restartHand, req *http.Request, id string) (status int, body []byte, ok bool) {
	req.Header.Set("Mayfly-Request", id)
	res, err := h.client.Do(req)
	if err != nil {
		l.mu.Lock()
		l.unanswered[id] = err.Error()
		l.mu.Unlock()
		time.Sleep(5 * time.Millisecond) // it is away
		return 0, nil, false
	}
	body, err = io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		l.Errorf("an answer was cut: %v", err)
	}
	l.mu.Lock()
	l.answered[id]++
	l.mu.Unlock()
	select {
	case l.moved <- struct{}{}:
	default:
	}
	return res.StatusCode, body, true
}

// write publishes one story, with one key however often it takes.
func (l *restartLoad) write(h *restartHand) {
	h.count++
	author, key := h.random.IntN(restartAuthors), fmt.Sprintf("key-%d-%d", h.number, h.count)
	form, typ := restartForm(picture(key, 0))
	for try, last := 0, ""; ; try++ {
		req, err := http.NewRequest(http.MethodPost, "http://"+l.api+"/v1/stories", bytes.NewReader(form))
		if err != nil {
			l.Error(err)
			return
		}
		req.GetBody = nil // the transport must not send it again behind our back
		req.Header.Set("Content-Type", typ)
		req.Header.Set("Authorization", "Bearer "+l.tokens[author])
		req.Header.Set("Idempotency-Key", key)
		id := fmt.Sprintf("w-%d-%d-%d", h.number, h.count, try)
		status, body, ok := l.send(h, req, id)
		if !ok {
			last = id
			continue
		}
		if status == http.StatusOK && last != "" {
			l.mu.Lock()
			l.again = append(l.again, last)
			l.mu.Unlock()
		} else if status != http.StatusCreated {
			l.Errorf("publish: %d %s", status, excerpt(body))
			return
		}
		l.acknowledged(author, body)
		return
	}
}

func (l *restartLoad) acknowledged(author int, body []byte) {
	var story wire.Story
	if err := json.Unmarshal(body, &story); err != nil || len(story.Media) != 1 {
		l.Errorf("publish: %v %s", err, excerpt(body))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = append(l.acked, restartStory{story.ID, author, story.Media[0].SHA256})
}

func restartForm(medium []byte) (form []byte, typ string) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	part, err := w.CreateFormFile("media", "photo")
	if err == nil {
		_, err = part.Write(medium)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // into memory
	}
	return out.Bytes(), w.FormDataContentType()
}

// read opens a story that was acknowledged.
func (l *restartLoad) read(h *restartHand) {
	l.mu.Lock()
	n := len(l.acked)
	var s restartStory
	if n > 0 {
		s = l.acked[h.random.IntN(n)]
	}
	l.mu.Unlock()
	if n == 0 {
		time.Sleep(time.Millisecond) // the first are on their way
		return
	}
	h.count++
	if _, ok := l.open(h, s, fmt.Sprintf("r-%d-%d", h.number, h.count)); ok {
		l.mu.Lock()
		l.reads++
		l.mu.Unlock()
	}
}

func (l *restartLoad) open(h *restartHand, s restartStory, request string) (story wire.Story, ok bool) {
	req, err := http.NewRequest(http.MethodGet, "http://"+l.api+"/v1/stories/"+s.id.String(), nil)
	if err != nil {
		l.Error(err)
		return story, false
	}
	req.Header.Set("Authorization", "Bearer "+l.tokens[s.author])
	status, body, ok := l.send(h, req, request)
	if !ok {
		return story, false
	}
	if err := json.Unmarshal(body, &story); status != http.StatusOK || err != nil || story.ID != s.id {
		l.Errorf("%s was acknowledged, and is %d %s", s.id, status, excerpt(body))
	}
	return story, true
}

// readAll opens every story that was acknowledged, and reads its medium.
func (l *restartLoad) readAll() (read int) {
	l.Helper()
	var readers sync.WaitGroup
	for n := range restartReaders {
		readers.Go(func() {
			h := &restartHand{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}}
			defer h.client.CloseIdleConnections()
			for i := n; i < len(l.acked); i += restartReaders {
				story, ok := l.open(h, l.acked[i], fmt.Sprintf("all-%d", i))
				if !ok {
					l.Errorf("%s was acknowledged, and cannot be asked for", l.acked[i].id)
					return
				}
				if len(story.Media) == 1 {
					l.sameMedium(h, story.Media[0].URL, l.acked[i])
				}
			}
		})
	}
	readers.Wait()
	return len(l.acked)
}

func (l *restartLoad) sameMedium(h *restartHand, url string, s restartStory) {
	res, err := h.client.Get("http://" + l.api + url)
	if err != nil {
		l.Error(err)
		return
	}
	hash := sha256.New()
	_, err = io.Copy(hash, res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil || hex.EncodeToString(hash.Sum(nil)) != s.sum {
		l.Errorf("the medium of %s is %d, and not what was acknowledged: %v", s.id, res.StatusCode, err)
	}
}

// judge compares the record with what the servers logged: whatever they did has
// been answered. The one way to lose an answer is inherent in HTTP/1.1 (RFC 9112
// §9.6): a request that is sent at the instant when the server closes the
// connection because it is idle. It is rare: one at a stop at most, on average.
func (l *restartLoad) judge() (raced int) {
	l.Helper()
	for id := range l.unanswered {
		if l.handled[id] > 0 {
			raced++
		}
	}
	for id, n := range l.answered {
		if l.handled[id] != n {
			l.Errorf("request %s was answered %d times and handled %d times", id, n, l.handled[id])
		}
	}
	for id, line := range l.failed {
		if _, noticed := l.unanswered[id]; !noticed {
			l.Errorf("it logged %s", line)
		}
	}
	for _, id := range l.again {
		if l.handled[id] == 0 {
			l.Errorf("request %s published a story, and is in no log", id)
		}
	}
	if raced > restarts {
		l.Errorf("%d requests were handled and not answered", raced)
	}
	return raced
}
