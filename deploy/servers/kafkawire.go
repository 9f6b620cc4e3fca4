package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	kafkaMetadata    = 3
	kafkaAPIVersions = 18
)

// askVersions asks which requests a broker knows: the first word of every client.
func askVersions(c io.ReadWriter) error {
	answer, err := kafkaRequest(c, kafkaAPIVersions, 0, nil)
	if err != nil {
		return err
	}
	if len(answer) < 2 || binary.BigEndian.Uint16(answer) != 0 {
		return fmt.Errorf("ApiVersions is refused: % x", answer[:min(len(answer), 8)])
	}
	return nil
}

// askBrokers asks who the brokers are. A broker names itself only once its
// controller has let it in; before that it knows its requests but serves none.
func askBrokers(c io.ReadWriter) error {
	noTopics := []byte{0, 0, 0, 0, 0} // and make none
	answer, err := kafkaRequest(c, kafkaMetadata, 4, noTopics)
	if err != nil {
		return err
	}
	if len(answer) < 8 || binary.BigEndian.Uint32(answer[4:]) == 0 { // behind the throttle time
		return errors.New("the broker is not registered yet")
	}
	return nil
}

// kafkaRequest sends one request with the old header and returns the answer
// behind its correlation id.
func kafkaRequest(c io.ReadWriter, what, version uint16, body []byte) ([]byte, error) {
	const correlation, name = 7, "servers"
	request := binary.BigEndian.AppendUint16(nil, what)
	request = binary.BigEndian.AppendUint16(request, version)
	request = binary.BigEndian.AppendUint32(request, correlation)
	request = append(binary.BigEndian.AppendUint16(request, uint16(len(name))), name...)
	request = append(request, body...)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length < 4 || length > mostAnswer || binary.BigEndian.Uint32(head[4:]) != correlation {
		return nil, fmt.Errorf("not an answer of Kafka: % x", head)
	}
	answer := make([]byte, length-4)
	_, err := io.ReadFull(c, answer)
	return answer, err
}
