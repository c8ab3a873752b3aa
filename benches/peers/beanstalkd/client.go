// A client for the three commands of beanstalkd's protocol that the load needs. For several jobs, it first writes all
// commands and then reads all replies.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

type client struct {
	connection net.Conn
	in         *bufio.Reader
	out        *bufio.Writer
}

func dial(address string) (*client, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	const buffer = 64 << 10
	return &client{connection, bufio.NewReaderSize(connection, buffer), bufio.NewWriterSize(connection, buffer)}, nil
}

func (c *client) close() { _ = c.connection.Close() }

func (c *client) put(count, payload int) error {
	// Priority 0, no delay, and a reservation of five minutes.
	command := fmt.Sprintf("put 0 0 300 %d\r\n%s\r\n", payload, strings.Repeat("x", payload))
	for range make([]struct{}, count) {
		if _, err := c.out.WriteString(command); err != nil {
			return err
		}
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	return c.answers(count, "INSERTED ")
}

// deleteAndReserve deletes the jobs that are done, reserves count others and appends their ids to ids.
func (c *client) deleteAndReserve(done []int, count int, ids []int) ([]int, error) {
	for _, id := range done {
		if _, err := c.out.WriteString("delete " + strconv.Itoa(id) + "\r\n"); err != nil {
			return ids, err
		}
	}
	for range make([]struct{}, count) {
		if _, err := c.out.WriteString("reserve\r\n"); err != nil {
			return ids, err
		}
	}
	if err := c.out.Flush(); err != nil {
		return ids, err
	}
	if err := c.answers(len(done), "DELETED"); err != nil {
		return ids, err
	}
	for range make([]struct{}, count) {
		id, err := c.reserved()
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// reserved reads `RESERVED <id> <bytes>` and skips the body.
func (c *client) reserved() (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "RESERVED" {
		return 0, fmt.Errorf("reserve was answered %q", line)
	}
	id, err := strconv.Atoi(words[1])
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.Atoi(words[2])
	if err != nil {
		return 0, err
	}
	_, err = c.in.Discard(bytes + len("\r\n"))
	return id, err
}

func (c *client) answers(count int, want string) error {
	for range make([]struct{}, count) {
		line, err := c.line()
		if err != nil {
			return err
		}
		if !strings.HasPrefix(line, want) {
			return fmt.Errorf("answered %q, not %q", line, want)
		}
	}
	return nil
}

func (c *client) line() (string, error) {
	line, err := c.in.ReadString('\n')
	if err == io.EOF {
		return "", fmt.Errorf("the server closed the connection")
	}
	return strings.TrimSuffix(line, "\r\n"), err
}
