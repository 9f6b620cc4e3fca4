package clock

import (
	"testing"
	"time"
)

func TestReaderThatSampledBeforeATurnReadsNoLessThanBefore(t *testing.T) {
	old := &line{slow: int64(time.Minute)} // runs at nine tenths
	early, late := 5*time.Second, 5100*time.Millisecond
	turned := old.next(Moment{Wall: old.at(late), Boot: late}, Options{}.defaulted(), nil) // and now at full pace
	if before, after := old.at(early), turned.at(early); after < before {
		t.Fatalf("read %d after the turn, %d before", after, before)
	}
}
