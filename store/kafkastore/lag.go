package kafkastore

import "context"

// Lag implements store.Reader. It counts the reader's share.
func (r *reader) Lag(ctx context.Context) (int64, error) {
	if err := r.start(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.s.opts.Patience+r.s.opts.Handover)
	defer cancel()
	if err := r.share.await(ctx); err != nil {
		return 0, unavailable("lag of "+r.topic, err)
	}
	starts, err := r.s.starts(ctx, r.topic)
	if err != nil {
		return 0, unavailable("lag of "+r.topic, err)
	}
	ends, err := r.s.ends(ctx, r.topic)
	if err != nil {
		return 0, unavailable("lag of "+r.topic, err)
	}
	return waiting(r.share.places(), starts, ends), nil
}

// waiting counts what is between the places and the ends and is still kept.
func waiting(places, starts, ends map[partition]offset) (n int64) {
	for p, at := range places {
		n += max(0, ends[p]-max(at, starts[p]))
	}
	return n
}
