package loop

import "context"

// Signal tells a test that something has happened, so that it need not sleep.
// The zero Signal is silent and costs a nil check: it may stay in the product.
type Signal[T any] struct {
	sent chan T
}

// NewSignal is a signal that can be waited for.
func NewSignal[T any]() Signal[T] { return Signal[T]{sent: make(chan T, 1024)} }

// Send wakes the receiver, now or later. It never blocks: a value
// behind a thousand that no receiver has taken is dropped.
func (s Signal[T]) Send(value T) {
	if s.sent == nil {
		return
	}
	select {
	case s.sent <- value:
	default:
	}
}

// Wait takes the oldest value that was sent.
func (s Signal[T]) Wait(ctx context.Context) (T, error) {
	select {
	case value := <-s.sent:
		return value, nil
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
