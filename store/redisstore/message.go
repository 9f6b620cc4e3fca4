package redisstore

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// nodeID names one life of one process.
type nodeID string

// life names one life of the server's memory: within it nothing was forgotten.
type life string

// place is a point in the order of signals.
type place struct {
	life life
	seq  uint64
}

// A message is words with blanks between them:
//
//	signal <life> <seq> <publisher> <signal>
//	beat   <life> <seq> <beat> <whether the roll is whole>
//	ack    <life> <seq> <subscriber>
type message struct {
	word   string
	at     place
	node   nodeID       // signal, ack
	signal store.Signal // signal
	beat   uint64       // beat
	whole  bool         // beat
}

func readMessage(text string) (message, error) {
	bad := func() (message, error) {
		return message{}, mayfly.Errorf(mayfly.Corrupt, "redis: not a message: %.80q", text)
	}
	words := strings.Split(text, " ")
	if len(words) < 4 {
		return bad()
	}
	seq, err := strconv.ParseUint(words[2], 10, 64)
	if err != nil {
		return bad()
	}
	m := message{word: words[0], at: place{life(words[1]), seq}}
	switch {
	case m.word == "signal" && len(words) == 5:
		m.node = nodeID(words[3])
		m.signal, err = readSignal(words[4])
	case m.word == "beat" && len(words) == 5:
		m.whole = words[4] == "1"
		m.beat, err = strconv.ParseUint(words[3], 10, 64)
	case m.word == "ack" && len(words) == 4:
		m.node = nodeID(words[3])
	default:
		return bad()
	}
	if err != nil {
		return bad()
	}
	return m, nil
}

func ackText(at place, by nodeID) string {
	return strings.Join([]string{"ack", string(at.life), strconv.FormatUint(at.seq, 10), string(by)}, " ")
}

const signalBytes = 1 + len(mayfly.ID{}) + len(mayfly.UserID{})

func signalText(s store.Signal) string {
	b := append(append([]byte{byte(s.Topic)}, s.ID[:]...), s.Owner[:]...)
	return hex.EncodeToString(b)
}

func readSignal(text string) (store.Signal, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != signalBytes {
		return store.Signal{}, mayfly.Errorf(mayfly.Corrupt, "redis: a signal of %d letters", len(text))
	}
	return store.Signal{Topic: store.Topic(b[0]), ID: mayfly.ID(b[1:17]), Owner: mayfly.UserID(b[17:33])}, nil
}
