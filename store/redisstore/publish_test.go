package redisstore

import (
	"fmt"
	"slices"
	"testing"
)

func isDone(w *waiter) bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func TestAWaitEndsWhenEveryNodeHasAcknowledged(t *testing.T) {
	a := newAcks()
	w := a.await(in("a", 5), []nodeID{"x", "y"})
	a.acknowledge("x", in("a", 5))
	a.acknowledge("y", in("a", 4))
	a.acknowledge("z", in("a", 9))
	if isDone(w) {
		t.Fatal("the wait ended before y acknowledged")
	}
	a.acknowledge("y", in("a", 7)) // covers what came before
	if !isDone(w) {
		t.Error("all nodes have acknowledged, but the wait has not ended")
	}
}

func TestAnAcknowledgementMayComeBeforeItsWait(t *testing.T) {
	a := newAcks()
	a.acknowledge("x", in("a", 5))
	if !isDone(a.await(in("a", 5), []nodeID{"x"})) || !isDone(a.await(in("a", 4), nil)) {
		t.Error("no node is missing, but the wait has not ended")
	}
}

func TestAnAcknowledgementOfAnotherGenerationDoesNotCount(t *testing.T) {
	a := newAcks()
	a.acknowledge("x", in("old", 50))
	w := a.await(in("new", 1), []nodeID{"x"})
	a.acknowledge("x", in("old", 60))
	if isDone(w) {
		t.Error("a position of another generation was accepted as an acknowledgement")
	}
	if missing := a.giveUp(w); len(missing) != 1 || len(a.waiting) != 0 {
		t.Errorf("%v are missing, %d waiters left", missing, len(a.waiting))
	}
}

func TestAcknowledgementsOfFormerMembersAreDropped(t *testing.T) {
	a := newAcks()
	for i := range 1000 {
		a.acknowledge(nodeID(fmt.Sprint(i)), in("a", 1))
		a.keep([]nodeID{"0"})
	}
	if _, kept := a.handled["0"]; len(a.handled) > 20 || !kept {
		t.Errorf("%d nodes are kept for one member (member kept: %t)", len(a.handled), kept)
	}
}

func TestMessagesAreParsed(t *testing.T) {
	s := freshSignal()
	for text, want := range map[string]message{
		"signal a.b 7 node " + signalText(s): {word: "signal", at: in("a.b", 7), node: "node", signal: s},
		"beat a.b 7 12 1":                    {word: "beat", at: in("a.b", 7), beat: 12, complete: true},
		"beat a.b 7 12 0":                    {word: "beat", at: in("a.b", 7), beat: 12},
		ackText(in("a.b", 7), "node"):        {word: "ack", at: in("a.b", 7), node: "node"},
	} {
		if got, err := readMessage(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "signal", "signal a 7 node zz", "signal a 7 node 00", "signal a x node " + signalText(s), "beat a 7 x 1", "ack a 7", "hello a 7 b"} {
		if got, err := readMessage(text); err == nil {
			t.Errorf("%q was parsed as %+v", text, got)
		}
	}
}

func TestTheMembersAreReadFromTheReply(t *testing.T) {
	got, err := readPublication([]string{"a.b", "7", "x", "3", "y", "12"}, 5)
	if err != nil || got.at != in("a.b", 7) || !slices.Equal(got.nodes, []nodeID{"x", "y"}) || got.beats["y"] != "12" || got.by != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, words := range [][]string{nil, {"a"}, {"a", "x"}, {"a", "7", "x"}} {
		if _, err := readPublication(words, 0); err == nil {
			t.Errorf("%q was accepted", words)
		}
	}
}
