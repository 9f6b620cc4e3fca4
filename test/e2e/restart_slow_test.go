package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"

	"github.com/mayflyhq/mayfly/api/wire"
)

// restartSlow is a request that is under way when the server gets the signal to stop.
type restartSlow struct {
	rest chan struct{} // closed: it may go on
	done chan error
	load *restartLoad
	what string
}

func (s *restartSlow) finish() {
	s.load.Helper()
	close(s.rest)
	if err := <-s.done; err != nil {
		s.load.Errorf("a slow %s that was under way did not finish: %v", s.what, err)
	}
}

// slowUpload begins to publish a story; the server has asked for its body, and
// has half of it.
func (l *restartLoad) slowUpload() *restartSlow {
	l.Helper()
	s := &restartSlow{rest: make(chan struct{}), done: make(chan error, 1), load: l, what: "upload"}
	form, typ := restartForm(picture("slow", rand.IntN(1<<30)))
	half := &restartHalf{Reader: bytes.NewReader(form[:len(form)/2]), read: make(chan struct{}), rest: s.rest, second: bytes.NewReader(form[len(form)/2:])}
	asked := make(chan struct{})
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got100Continue: func() { close(asked) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.api+"/v1/stories", half)
	if err != nil {
		l.Fatal(err)
	}
	req.Header.Set("Content-Type", typ)
	req.Header.Set("Authorization", "Bearer "+l.tokens[0])
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: restartReady * 10}}
	go func() {
		status, body, err := answerOf(client.Do(req))
		if err == nil && status != http.StatusCreated {
			err = fmt.Errorf("%d %s", status, excerpt(body))
		}
		if err == nil {
			l.acknowledged(0, body)
		}
		s.done <- err
	}()
	for _, begun := range []chan struct{}{asked, half.read} {
		select {
		case <-begun:
		case err := <-s.done:
			l.Fatalf("a slow upload did not begin: %v", err)
		}
	}
	return s
}

func answerOf(res *http.Response, err error) (int, []byte, error) {
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, body, errors.Join(err, res.Body.Close())
}

// restartHalf is a body whose second half comes when it may.
type restartHalf struct {
	io.Reader
	once   sync.Once
	read   chan struct{} // closed when the first half has gone
	rest   chan struct{}
	second io.Reader
}

func (h *restartHalf) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	h.once.Do(func() { close(h.read) })
	<-h.rest
	return h.second.Read(p)
}

// slowDownload begins to read a medium that is larger than what lies in sockets.
func (l *restartLoad) slowDownload() *restartSlow {
	l.Helper()
	s := &restartSlow{rest: make(chan struct{}), done: make(chan error, 1), load: l, what: "download"}
	medium := l.publishLarge()
	narrow := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10)
		})
		return errors.Join(err, failed)
	}}
	client := &http.Client{Transport: &http.Transport{DialContext: narrow.DialContext}}
	res, err := client.Get("http://" + l.api + medium.URL)
	if err != nil {
		l.Fatal(err)
	}
	hash := sha256.New()
	if _, err := io.CopyN(hash, res.Body, 4<<10); err != nil {
		l.Fatal(err)
	}
	go func() {
		<-s.rest
		_, err := io.Copy(hash, res.Body)
		err = errors.Join(err, res.Body.Close())
		if got := hex.EncodeToString(hash.Sum(nil)); err == nil && got != medium.SHA256 {
			err = fmt.Errorf("%s came instead of %s", got, medium.SHA256)
		}
		s.done <- err
	}()
	return s
}

// publishLarge publishes a picture of some megabytes, and says where it is.
func (l *restartLoad) publishLarge() wire.Medium {
	l.Helper()
	const side = 2400
	noise := image.NewGray(image.Rect(0, 0, side, side))
	for i := range noise.Pix {
		noise.Pix[i] = byte(rand.Uint32())
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&out, noise); err != nil {
		l.Fatal(err)
	}
	form, typ := restartForm(out.Bytes())
	req, err := http.NewRequest(http.MethodPost, "http://"+l.api+"/v1/stories", bytes.NewReader(form))
	if err != nil {
		l.Fatal(err)
	}
	req.Header.Set("Content-Type", typ)
	req.Header.Set("Authorization", "Bearer "+l.tokens[0])
	status, body, err := answerOf(http.DefaultClient.Do(req))
	var story wire.Story
	if err == nil {
		err = json.Unmarshal(body, &story)
	}
	if err != nil || status != http.StatusCreated || len(story.Media) != 1 {
		l.Fatalf("publish a large medium: %d %v %s", status, err, excerpt(body))
	}
	l.acknowledged(0, body)
	return story.Media[0]
}
