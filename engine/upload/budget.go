package upload

import (
	"sync"

	"github.com/mayflyhq/mayfly"
)

// inProgress counts the media that each user is sending to this node: a user who
// sends many of them slowly must not take what the others need (C9).
type inProgress struct {
	mu  sync.Mutex
	now map[mayfly.UserID]int
}

// begin counts one more medium of owner's, of at most most, until end is called.
// Errors: Limited.
func (p *inProgress) begin(owner mayfly.UserID, most int) (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !owner.IsZero() && p.now[owner] >= most {
		return nil, mayfly.Errorf(mayfly.Limited, "%d media of this user are being received already", most).WithHint("wait until one of them is stored, then send the next")
	}
	p.now[owner]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.now[owner]--; p.now[owner] == 0 {
			delete(p.now, owner)
		}
	}, nil
}
