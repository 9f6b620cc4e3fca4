package clock

import (
	"testing"
	"time"
)

func TestReaderThatSampledBeforeTheLineWasReplacedDoesNotGoBack(t *testing.T) {
	old := &line{slow: int64(time.Minute)} // runs at nine tenths of the speed
	early, late := 5*time.Second, 5100*time.Millisecond
	turned := old.next(Moment{Wall: old.at(late), Boot: late}, Options{}.defaulted(), nil) // now at full speed
	if before, after := old.at(early), turned.at(early); after < before {
		t.Fatalf("read %d from the new line, %d from the old one", after, before)
	}
}
