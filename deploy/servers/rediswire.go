package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// askRedis sends one command on a connection of its own and returns a simple or
// bulk answer.
func askRedis(ctx context.Context, s server, n node, words ...string) (string, error) {
	c, err := dial(ctx, s, n.at("redis"))
	if err != nil {
		return "", err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	if s.Secure {
		if _, err := c.Write(redisCommand("AUTH", s.Secrets.User, s.Secrets.Password)); err != nil {
			return "", err
		}
		if _, err := redisAnswer(in); err != nil {
			return "", err
		}
	}
	if _, err := c.Write(redisCommand(words...)); err != nil {
		return "", err
	}
	return redisAnswer(in)
}

func redisCommand(words ...string) []byte {
	text := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		text = fmt.Appendf(text, "$%d\r\n%s\r\n", len(w), w)
	}
	return text
}

func redisAnswer(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case strings.HasPrefix(line, "+"):
		return line[1:], nil
	case strings.HasPrefix(line, "-"):
		return "", errors.New("Redis says " + line[1:])
	case strings.HasPrefix(line, "$"):
		return redisBulk(in, line[1:])
	}
	return "", fmt.Errorf("not an answer of Redis: %q", line)
}

func redisBulk(in *bufio.Reader, length string) (string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > mostAnswer {
		return "", fmt.Errorf("not the length of an answer of Redis: %q", length)
	}
	text := make([]byte, n)
	_, err = io.ReadFull(in, text)
	return string(text), err
}
